package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiadmission "k8s.io/apiserver/pkg/admission"
	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
)

// role is a set of equal pods with the claims that controllers create for them. If the API server refuses the pods, the
// role has no pods.
type role struct {
	pods    []*corev1.Pod
	claims  []*corev1.PersistentVolumeClaim
	refused bool
}

// wanted is what a workload requests from its controller: the pod template with the labels that the controller adds,
// the number of pods, and the claim templates.
type wanted struct {
	meta     metav1.ObjectMeta
	template corev1.PodTemplateSpec
	count    int
	// first is the number of the first pod.
	first  int
	claims []corev1.PersistentVolumeClaim
}

// admission changes new pods as the API server does.
type admission struct {
	plugins []apiadmission.MutationInterface
}

func newAdmission(factory informers.SharedInformerFactory) *admission {
	priorities := priority.NewPlugin()
	priorities.SetExternalKubeInformerFactory(factory)
	tolerations := defaulttolerationseconds.NewDefaultTolerationSeconds()
	tolerations.InspectFeatureGates(feature.DefaultFeatureGate)
	return &admission{[]apiadmission.MutationInterface{priorities, tolerations}}
}

// roles returns the pods that the controllers create for the workloads.
func (a *admission) roles(gang []json.RawMessage, namespace string) ([]role, error) {
	made := []role{}
	for _, item := range gang {
		asked, err := workload(item)
		if err != nil {
			return nil, err
		}
		if asked.meta.Namespace == "" {
			asked.meta.Namespace = namespace
		}
		one, err := a.role(asked)
		if err != nil {
			return nil, err
		}
		made = append(made, one)
	}
	return made, nil
}

// workload reads a Job or a StatefulSet.
func workload(item json.RawMessage) (wanted, error) {
	var header struct{ Kind string }
	if err := json.Unmarshal(item, &header); err != nil {
		return wanted{}, err
	}
	if header.Kind == "StatefulSet" {
		var set appsv1.StatefulSet
		err := json.Unmarshal(item, &set)
		first := 0
		if set.Spec.Ordinals != nil {
			first = int(set.Spec.Ordinals.Start)
		}
		count, claims := number(set.Spec.Replicas), set.Spec.VolumeClaimTemplates
		return wanted{set.ObjectMeta, set.Spec.Template, count, first, claims}, err
	}
	var job batchv1.Job
	err := json.Unmarshal(item, &job)
	template, count := job.Spec.Template, number(job.Spec.Parallelism)
	if job.Spec.Completions != nil {
		count = min(count, int(*job.Spec.Completions))
	}
	template.Labels = maps.Clone(template.Labels)
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[batchv1.JobNameLabel] = job.Name
	template.Labels["job-name"] = job.Name
	return wanted{meta: job.ObjectMeta, template: template, count: count}, err
}

func number(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

func (a *admission) role(asked wanted) (role, error) {
	meta, template := asked.meta, asked.template
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", meta.Name, asked.first), meta.Namespace
	asked.claim(pod)
	defaults.SetObjectDefaults_Pod(pod)
	admitted, err := a.admit(pod)
	if err != nil {
		return role{}, err
	}
	made := role{refused: admitted == nil}
	for number := range asked.count {
		one := pod
		if admitted != nil {
			one = admitted.DeepCopy()
		}
		one.Name = fmt.Sprintf("%s-%d", meta.Name, asked.first+number)
		one.UID = types.UID("gang/" + one.Name)
		made.claims = append(made.claims, asked.claim(one)...)
		made.claims = append(made.claims, ephemeralClaims(one)...)
		made.pods = append(made.pods, one)
	}
	return made, nil
}

// admit returns the pod as the API server stores it, nil if an admission plugin forbids the pod, or an error if the pod
// is invalid.
func (a *admission) admit(pod *corev1.Pod) (*corev1.Pod, error) {
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(pod, &internal, nil); err != nil {
		return nil, err
	}
	ctx := context.Background()
	podregistry.Strategy.PrepareForCreate(ctx, &internal)
	attributes := apiadmission.NewAttributesRecord(
		&internal, nil, core.Kind("Pod").WithVersion("version"), pod.Namespace, pod.Name,
		core.Resource("pods").WithVersion("version"), "", apiadmission.Create, &metav1.CreateOptions{}, false, nil,
	)
	for _, plugin := range a.plugins {
		if err := plugin.Admit(ctx, attributes, nil); err != nil {
			return nil, nil
		}
	}
	if invalid := podregistry.Strategy.Validate(ctx, &internal); len(invalid) > 0 {
		return nil, fmt.Errorf("%s: %w", pod.Name, invalid.ToAggregate())
	}
	var admitted corev1.Pod
	if err := legacyscheme.Scheme.Convert(&internal, &admitted, nil); err != nil {
		return nil, err
	}
	return &admitted, store(&admitted)
}
