package main

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	storagedefaults "k8s.io/kubernetes/pkg/apis/storage/v1"
)

var kinds = map[string]func() runtime.Object{
	"Node":                  func() runtime.Object { return &corev1.Node{} },
	"Pod":                   func() runtime.Object { return &corev1.Pod{} },
	"Namespace":             func() runtime.Object { return &corev1.Namespace{} },
	"PersistentVolume":      func() runtime.Object { return &corev1.PersistentVolume{} },
	"PersistentVolumeClaim": func() runtime.Object { return &corev1.PersistentVolumeClaim{} },
	"StorageClass":          func() runtime.Object { return &storagev1.StorageClass{} },
	"CSINode":               func() runtime.Object { return &storagev1.CSINode{} },
	"CSIDriver":             func() runtime.Object { return &storagev1.CSIDriver{} },
	"CSIStorageCapacity":    func() runtime.Object { return &storagev1.CSIStorageCapacity{} },
	"VolumeAttachment":      func() runtime.Object { return &storagev1.VolumeAttachment{} },
	"PriorityClass":         func() runtime.Object { return &schedulingv1.PriorityClass{} },
}

// conditions are the taints that Kubernetes itself sets and removes according to the node's state.
var conditions = map[string]bool{
	corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeUnschedulable: true,
	corev1.TaintNodeMemoryPressure: true, corev1.TaintNodeDiskPressure: true, corev1.TaintNodePIDPressure: true,
	corev1.TaintNodeNetworkUnavailable: true,
}

// parse reads the objects, with the API server's defaults.
func parse(items []json.RawMessage) ([]runtime.Object, error) {
	objects := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		var header struct{ Kind string }
		if err := json.Unmarshal(item, &header); err != nil {
			return nil, err
		}
		make, known := kinds[header.Kind]
		if !known {
			continue
		}
		object := make()
		if err := json.Unmarshal(item, object); err != nil {
			return nil, fmt.Errorf("%s: %w", header.Kind, err)
		}
		if err := complete(object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func complete(object runtime.Object) error {
	switch typed := object.(type) {
	case *corev1.Node:
		defaults.SetObjectDefaults_Node(typed)
	case *corev1.Pod:
		defaults.SetObjectDefaults_Pod(typed)
		typed.UID = types.UID(typed.Namespace + "/" + typed.Name)
		return store(typed)
	case *corev1.PersistentVolume:
		defaults.SetObjectDefaults_PersistentVolume(typed)
		typed.ResourceVersion = "1"
	case *corev1.PersistentVolumeClaim:
		stored(typed)
	case *storagev1.StorageClass:
		storagedefaults.SetObjectDefaults_StorageClass(typed)
	}
	return nil
}

// store encodes the pod as for etcd and decodes it again. Its quantities then have the form that the scheduler gets;
// the scheduler's sums would change other forms in place.
func store(pod *corev1.Pod) error {
	data, err := pod.Marshal()
	if err != nil {
		return err
	}
	pod.Reset()
	return pod.Unmarshal(data)
}

// emptied returns the cluster with only DaemonSet and static pods, all nodes healthy and none cordoned. Volumes of
// ended pods are detached. Volumes of pods that stay are counted with their pods.
func emptied(objects []runtime.Object) []runtime.Object {
	left := []runtime.Object{}
	for _, object := range objects {
		switch typed := object.(type) {
		case *corev1.Pod:
			if stays(typed) {
				left = append(left, typed)
			}
		case *corev1.Node:
			left = append(left, recovered(typed))
		case *storagev1.VolumeAttachment:
		default:
			left = append(left, object)
		}
	}
	return left
}

func stays(pod *corev1.Pod) bool {
	for _, owner := range pod.OwnerReferences {
		if owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/") {
			return true
		}
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

func recovered(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.Spec.Unschedulable = false
	taints := node.Spec.Taints
	node.Spec.Taints = nil
	for _, taint := range taints {
		if !conditions[taint.Key] {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
	return node
}
