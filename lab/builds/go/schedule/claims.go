package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// claim adds to a pod the volumes of its StatefulSet's claim templates, and returns the claims.
func (w wanted) claim(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	made := []*corev1.PersistentVolumeClaim{}
	for _, template := range w.claims {
		claim := template.DeepCopy()
		claim.Name, claim.Namespace = template.Name+"-"+pod.Name, pod.Namespace
		made = append(made, stored(claim))
		source := corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
		volume := corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &source}}
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(each corev1.Volume) bool {
			return each.Name == volume.Name
		})
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	}
	return made
}

// ephemeralClaims returns the claims that the ephemeral volume controller creates for a pod.
func ephemeralClaims(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	made := []*corev1.PersistentVolumeClaim{}
	for _, volume := range pod.Spec.Volumes {
		if volume.Ephemeral == nil {
			continue
		}
		isTrue := true
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isTrue}
		meta := metav1.ObjectMeta{
			Name:            ephemeral.VolumeClaimName(pod, &volume),
			Namespace:       pod.Namespace,
			OwnerReferences: []metav1.OwnerReference{owner},
		}
		spec := *volume.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy()
		made = append(made, stored(&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: spec}))
	}
	return made
}

func stored(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	defaults.SetObjectDefaults_PersistentVolumeClaim(claim)
	claim.ResourceVersion, claim.UID = "1", types.UID(claim.Namespace+"/"+claim.Name)
	return claim
}

// create adds claims that do not exist yet.
func (s *simulator) create(claims []*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		known := s.of(claim)
		if _, exists, _ := known.indexer.Get(claim); exists {
			continue
		}
		if err := known.add(claim); err != nil {
			return err
		}
	}
	return nil
}

// claimName returns the name of the volume's claim, or "" for a volume without a claim.
func claimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	}
	return ""
}
