package main

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// validity contains the API server's messages about an object and about the pods of its template.
type validity struct {
	Object []string `json:"object"`
	Pod    []string `json:"pod"`
}

// validate sets defaults in Jobs, StatefulSets and Pods, and validates them, as the API server does before it stores
// them.
func validate(items []json.RawMessage) ([]validity, error) {
	var told []validity
	for _, item := range items {
		one, err := validateOne(item)
		if err != nil {
			return nil, err
		}
		told = append(told, one)
	}
	return told, nil
}

func validateOne(item json.RawMessage) (validity, error) {
	var header metav1.TypeMeta
	if err := json.Unmarshal(item, &header); err != nil {
		return validity{}, err
	}
	switch header.Kind {
	case "Job":
		given := &batchv1.Job{}
		if err := json.Unmarshal(item, given); err != nil {
			return validity{}, err
		}
		given.UID = "uid"
		return validityOf(given, &batch.Job{}, job.Strategy, &given.Spec.Template)
	case "StatefulSet":
		given := &appsv1.StatefulSet{}
		if err := json.Unmarshal(item, given); err != nil {
			return validity{}, err
		}
		template := given.Spec.Template.DeepCopy()
		template.Spec.Volumes = volumesOf(given)
		return validityOf(given, &apps.StatefulSet{}, statefulset.Strategy, template)
	case "Pod":
		given := &corev1.Pod{}
		if err := json.Unmarshal(item, given); err != nil {
			return validity{}, err
		}
		said, err := said(given, &core.Pod{}, podregistry.Strategy)
		return validity{Object: said}, err
	}
	return validity{}, fmt.Errorf("kind %q is not known", header.Kind)
}

func validityOf(
	given, internal runtime.Object, strategy rest.RESTCreateStrategy, template *corev1.PodTemplateSpec,
) (validity, error) {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = "a", "a"
	object, err := said(given, internal, strategy)
	if err != nil {
		return validity{}, err
	}
	ofPod, err := said(pod, &core.Pod{}, podregistry.Strategy)
	return validity{object, ofPod}, err
}

// volumesOf returns the pods' volumes, including volumes that the controller adds for the claim templates.
func volumesOf(set *appsv1.StatefulSet) []corev1.Volume {
	var volumes []corev1.Volume
	names := map[string]bool{}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-a"}
		volumes = append(volumes, corev1.Volume{
			Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source},
		})
		names[claim.Name] = true
	}
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if !names[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}

func said(given, internal runtime.Object, strategy rest.RESTCreateStrategy) ([]string, error) {
	legacyscheme.Scheme.Default(given)
	if err := legacyscheme.Scheme.Convert(given, internal, nil); err != nil {
		return nil, err
	}
	ctx := context.Background()
	strategy.PrepareForCreate(ctx, internal)
	return wordsOf(strategy.Validate(ctx, internal)), nil
}

func wordsOf(found field.ErrorList) []string {
	words := []string{}
	for _, one := range found {
		words = append(words, one.Error())
	}
	return words
}
