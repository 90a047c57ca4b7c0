package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	noProvisioner = "kubernetes.io/no-provisioner"
	bindCompleted = "pv.kubernetes.io/bind-completed"
)

// reservation describes what happened to a pod's volumes when the pod got its node.
type reservation struct {
	state       fwk.CycleState
	provisioned []*corev1.PersistentVolumeClaim
}

// waiting returns the pod's claims that get their volume only when the pod's node is chosen.
func (s *simulator) waiting(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	found := []*corev1.PersistentVolumeClaim{}
	for _, volume := range pod.Spec.Volumes {
		key := pod.Namespace + "/" + claimName(pod, &volume)
		known, exists, _ := s.of(&corev1.PersistentVolumeClaim{}).indexer.GetByKey(key)
		if exists && known.(*corev1.PersistentVolumeClaim).Spec.VolumeName == "" {
			found = append(found, known.(*corev1.PersistentVolumeClaim))
		}
	}
	return found
}

// placeWithVolumes places a pod and binds its claims. The scheduler reserves existing volumes. For other claims, it
// creates volumes like the provisioner of their class.
func (s *simulator) placeWithVolumes(pod *corev1.Pod, node string) error {
	attempt, err := s.prefilter(pod)
	if err != nil {
		return err
	}
	status, err := attempt.filter(node)
	if err != nil {
		return err
	}
	if !status.IsSuccess() {
		return fmt.Errorf("%s does not go to %s again: %s", pod.Name, node, status.Message())
	}
	waiting := s.waiting(pod)
	if err := s.place(pod, node); err != nil {
		return err
	}
	if status := s.framework.RunReservePluginsReserve(s.ctx, attempt.state, pod, node); !status.IsSuccess() {
		return fmt.Errorf("Reserve of %s: %s", pod.Name, status.Message())
	}
	made := &reservation{state: attempt.state}
	s.reserved[pod.UID] = made
	for _, claim := range waiting {
		if class := s.class(claim); class == nil || class.Provisioner == noProvisioner {
			continue
		}
		if err := s.provision(claim, node); err != nil {
			return err
		}
		made.provisioned = append(made.provisioned, claim)
	}
	return s.update()
}

// takeWithVolumes undoes placeWithVolumes.
func (s *simulator) takeWithVolumes(pod *corev1.Pod, node string) error {
	made := s.reserved[pod.UID]
	delete(s.reserved, pod.UID)
	s.framework.RunReservePluginsUnreserve(s.ctx, made.state, pod, node)
	for _, claim := range made.provisioned {
		if err := s.of(&corev1.PersistentVolume{}).remove(volumeFor(claim, nil)); err != nil {
			return err
		}
		claims := s.of(claim)
		if err := claims.remove(claim); err != nil {
			return err
		}
		if err := claims.add(claim); err != nil {
			return err
		}
	}
	return s.take(pod)
}

func (s *simulator) class(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	found, exists, _ := s.of(&storagev1.StorageClass{}).indexer.GetByKey(*claim.Spec.StorageClassName)
	if !exists {
		return nil
	}
	return found.(*storagev1.StorageClass)
}

// provision creates a volume as a provisioner does after the scheduler has chosen a node. With allowed topologies in
// the class, the volume is reachable from nodes with the same topology labels, otherwise from every node.
func (s *simulator) provision(claim *corev1.PersistentVolumeClaim, node string) error {
	info, err := s.snapshot.Get(node)
	if err != nil {
		return err
	}
	expressions := []corev1.NodeSelectorRequirement{}
	for _, topology := range s.class(claim).AllowedTopologies {
		for _, each := range topology.MatchLabelExpressions {
			expressions = append(expressions, corev1.NodeSelectorRequirement{
				Key: each.Key, Operator: corev1.NodeSelectorOpIn, Values: []string{info.Node().Labels[each.Key]},
			})
		}
	}
	volume := volumeFor(claim, expressions)
	source := &corev1.CSIPersistentVolumeSource{Driver: s.class(claim).Provisioner, VolumeHandle: volume.Name}
	volume.Spec.CSI = source
	if err := s.of(volume).add(volume); err != nil {
		return err
	}
	bound := claim.DeepCopy()
	bound.ResourceVersion = "2"
	bound.Spec.VolumeName = volume.Name
	bound.Annotations = map[string]string{bindCompleted: "yes"}
	bound.Status.Phase = corev1.ClaimBound
	return s.of(claim).change(claim, bound)
}

func volumeFor(claim *corev1.PersistentVolumeClaim, where []corev1.NodeSelectorRequirement) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "for-" + claim.Name, ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    claim.Spec.Resources.Requests,
			AccessModes: claim.Spec.AccessModes,
			ClaimRef:    &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
	if len(where) > 0 {
		terms := []corev1.NodeSelectorTerm{{MatchExpressions: where}}
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return volume
}
