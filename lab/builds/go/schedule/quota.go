package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apiadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	schedulingdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	pods "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/utils/clock"
)

// created asks whether the admission plugins Priority, LimitRanger and ResourceQuota refuse new objects.
type created struct {
	// Objects contains the existing objects: ResourceQuotas, LimitRanges, PriorityClasses, claims and pods.
	Objects []json.RawMessage `json:"objects"`
	// Own contains the labels of the pods that end before the new objects are created.
	Own map[string]string `json:"own"`
	// New contains Jobs, claims and pods, in the order of their creation.
	New []json.RawMessage `json:"new"`
}

type admitted struct {
	// Used maps "namespace/name" of a quota to its usage by the existing pods.
	Used map[string]corev1.ResourceList `json:"used"`
	// Refusals contains the plugins' messages about each new object.
	Refusals []refusal `json:"refusals"`
}

type refusal struct {
	Priority string   `json:"priority,omitempty"`
	Invalid  string   `json:"invalid,omitempty"`
	Limits   []string `json:"limits,omitempty"`
	Quota    string   `json:"quota,omitempty"`
	// Empty is the message of the quotas if no other pod existed.
	Empty string `json:"empty,omitempty"`
}

var (
	podResource = corev1.SchemeGroupVersion.WithResource("pods")
	pvcResource = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	jobResource = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// namespaces contains the objects that the plugins read, by namespace.
type namespaces struct {
	limits        map[string][]*corev1.LimitRange
	quotas, empty map[string][]corev1.ResourceQuota
	claims        cache.Indexer
	registry      quota.Registry
}

var priorities = sync.OnceValues(func() (*priority.Plugin, *informer) {
	factory, informers := newInformers(fake.NewClientset())
	plugin := priority.NewPlugin()
	plugin.SetExternalKubeInformerFactory(factory)
	return plugin, informers[reflect.TypeOf(&schedulingv1.PriorityClass{})]
})

// admit creates the new objects one after another.
func admit(asked created) (*admitted, error) {
	found := &namespaces{
		map[string][]*corev1.LimitRange{}, map[string][]corev1.ResourceQuota{}, map[string][]corev1.ResourceQuota{},
		newIndexer(), nil,
	}
	all, others, err := found.read(asked)
	if err != nil {
		return nil, err
	}
	told := &admitted{Used: map[string]corev1.ResourceList{}}
	if err := found.count(all, told.Used); err != nil {
		return nil, err
	}
	if err := found.count(others, map[string]corev1.ResourceList{}); err != nil {
		return nil, err
	}
	for _, item := range asked.New {
		one, err := found.create(item)
		if err != nil {
			return nil, err
		}
		told.Refusals = append(told.Refusals, one)
	}
	return told, nil
}

// read returns all existing pods, and the pods that stay when the release's own pods end.
func (n *namespaces) read(asked created) (all, others []*corev1.Pod, err error) {
	_, classes := priorities()
	if err := classes.clear(); err != nil {
		return nil, nil, err
	}
	for _, item := range asked.Objects {
		var header metav1.TypeMeta
		if err := json.Unmarshal(item, &header); err != nil {
			return nil, nil, err
		}
		switch header.Kind {
		case "PriorityClass":
			var class schedulingv1.PriorityClass
			err = json.Unmarshal(item, &class)
			schedulingdefaults.SetObjectDefaults_PriorityClass(&class)
			if err == nil {
				err = classes.add(&class)
			}
		case "LimitRange":
			var limits corev1.LimitRange
			err = json.Unmarshal(item, &limits)
			defaults.SetObjectDefaults_LimitRange(&limits)
			n.limits[limits.Namespace] = append(n.limits[limits.Namespace], &limits)
		case "ResourceQuota":
			var one corev1.ResourceQuota
			err = json.Unmarshal(item, &one)
			defaults.SetObjectDefaults_ResourceQuota(&one)
			one.Status.Hard = one.Spec.Hard
			n.quotas[one.Namespace] = append(n.quotas[one.Namespace], one)
		case "PersistentVolumeClaim":
			var claim corev1.PersistentVolumeClaim
			if err = json.Unmarshal(item, &claim); err == nil {
				err = n.claims.Add(stored(&claim))
			}
		case "Pod":
			var pod corev1.Pod
			err = json.Unmarshal(item, &pod)
			defaults.SetObjectDefaults_Pod(&pod)
			all = append(all, &pod)
			if !labelled(&pod, asked.Own) {
				others = append(others, &pod)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", header.Kind, err)
		}
	}
	return all, others, nil
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func labelled(pod *corev1.Pod, labels map[string]string) bool {
	for key, value := range labels {
		if pod.Labels[key] != value {
			return false
		}
	}
	// The API server keeps an ended pod until it is deleted.
	return len(labels) > 0 && pod.DeletionTimestamp == nil && !ended(pod)
}

// count sets the quotas' usage by these pods, as the quota controller does.
func (n *namespaces) count(there []*corev1.Pod, used map[string]corev1.ResourceList) error {
	indexer := newIndexer()
	for _, pod := range there {
		if err := indexer.Add(pod); err != nil {
			return err
		}
	}
	lister := func(of schema.GroupVersionResource) (cache.GenericLister, error) {
		if of == pvcResource {
			return cache.NewGenericLister(n.claims, of.GroupResource()), nil
		}
		return cache.NewGenericLister(indexer, of.GroupResource()), nil
	}
	none := func(string) ([]runtime.Object, error) { return nil, nil }
	n.registry = generic.NewRegistry([]quota.Evaluator{
		pods.NewPodEvaluator(lister, clock.RealClock{}),
		pods.NewPersistentVolumeClaimEvaluator(lister),
		generic.NewObjectCountEvaluator(jobResource.GroupResource(), none, ""),
	})
	for namespace, quotas := range n.quotas {
		n.empty[namespace] = nil
		for i := range quotas {
			one := &quotas[i]
			usage, err := quota.CalculateUsage(namespace, one.Spec.Scopes, one.Status.Hard, n.registry, one.Spec.ScopeSelector)
			if err != nil {
				return err
			}
			one.Status.Used, used[namespace+"/"+one.Name] = usage, usage
			unused := one.DeepCopy()
			for name := range unused.Status.Used {
				unused.Status.Used[name] = resource.Quantity{}
			}
			n.empty[namespace] = append(n.empty[namespace], *unused)
		}
	}
	return nil
}

// create handles a new object as the API server does, but continues if a plugin refuses the object.
func (n *namespaces) create(item json.RawMessage) (refusal, error) {
	var header metav1.TypeMeta
	if err := json.Unmarshal(item, &header); err != nil {
		return refusal{}, err
	}
	if header.Kind == "Job" {
		var job batchv1.Job
		if err := json.Unmarshal(item, &job); err != nil {
			return refusal{}, err
		}
		return n.charge(refusal{}, attributesOf(&job, &job.ObjectMeta, "Job", jobResource)), nil
	}
	if header.Kind == "PersistentVolumeClaim" {
		return n.createClaim(item)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(item, &pod); err != nil {
		return refusal{}, err
	}
	defaults.SetObjectDefaults_Pod(&pod)
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(&pod, &internal, nil); err != nil {
		return refusal{}, err
	}
	attributes := attributesOf(&internal, &internal.ObjectMeta, "Pod", podResource)
	return n.charge(n.judge(&internal, attributes), attributes), nil
}

func (n *namespaces) createClaim(item json.RawMessage) (refusal, error) {
	var claim corev1.PersistentVolumeClaim
	if err := json.Unmarshal(item, &claim); err != nil {
		return refusal{}, err
	}
	var internal core.PersistentVolumeClaim
	if err := legacyscheme.Scheme.Convert(stored(&claim), &internal, nil); err != nil {
		return refusal{}, err
	}
	told := refusal{}
	for _, limits := range n.limits[claim.Namespace] {
		told.Limits = append(told.Limits, listed(limitranger.PersistentVolumeClaimValidateLimitFunc(limits, &internal))...)
	}
	return n.charge(told, attributesOf(&internal, &internal.ObjectMeta, "PersistentVolumeClaim", pvcResource)), nil
}

// judge returns the messages of Priority, validation and LimitRanger about a pod.
func (n *namespaces) judge(pod *core.Pod, attributes apiadmission.Attributes) refusal {
	told, ctx := refusal{}, context.Background()
	for _, limits := range n.limits[pod.Namespace] {
		_ = limitranger.PodMutateLimitFunc(limits, pod)
	}
	plugin, _ := priorities()
	told.Priority = words(plugin.Admit(ctx, attributes, nil))
	podregistry.Strategy.PrepareForCreate(ctx, pod)
	if invalid := podregistry.Strategy.Validate(ctx, pod); len(invalid) > 0 {
		told.Invalid = invalid.ToAggregate().Error()
	}
	for _, limits := range n.limits[pod.Namespace] {
		told.Limits = append(told.Limits, listed(limitranger.PodValidateLimitFunc(limits, pod))...)
	}
	return told
}

func listed(err error) []string {
	said := []string{}
	if found, is := err.(utilerrors.Aggregate); is {
		for _, one := range found.Errors() {
			said = append(said, one.Error())
		}
	}
	return said
}

// charge counts an object in the quotas, unless a quota refuses it.
func (n *namespaces) charge(told refusal, attributes apiadmission.Attributes) refusal {
	told.Quota = n.chargeTo(n.quotas, attributes)
	told.Empty = n.chargeTo(n.empty, attributes)
	return told
}

func (n *namespaces) chargeTo(quotas map[string][]corev1.ResourceQuota, attributes apiadmission.Attributes) string {
	namespace, evaluator := attributes.GetNamespace(), n.registry.Get(attributes.GetResource().GroupResource())
	left, err := resourcequota.CheckRequest(quotas[namespace], attributes, evaluator, nil)
	if err == nil {
		quotas[namespace] = left
	}
	return words(err)
}

func attributesOf(
	object runtime.Object, meta *metav1.ObjectMeta, kind string, of schema.GroupVersionResource,
) apiadmission.Attributes {
	return apiadmission.NewAttributesRecord(
		object, nil, of.GroupVersion().WithKind(kind), meta.Namespace, meta.Name, of, "", apiadmission.Create,
		&metav1.CreateOptions{}, false, nil,
	)
}

// words returns the message of an admission plugin, without the object's name.
func words(err error) string {
	if err == nil {
		return ""
	}
	if _, reason, found := strings.Cut(err.Error(), " is forbidden: "); found {
		return reason
	}
	return err.Error()
}
