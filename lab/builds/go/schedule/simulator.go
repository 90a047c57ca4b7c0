package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// simulator is a real scheduler with the default profile. This program supplies its objects and makes its choices.
type simulator struct {
	ctx       context.Context
	logger    klog.Logger
	scheduler *scheduler.Scheduler
	framework framework.Framework
	snapshot  *internalcache.Snapshot
	informers map[reflect.Type]*informer
	admission *admission
	reserved  map[types.UID]*reservation
}

func newSimulator(ctx context.Context) (*simulator, error) {
	client := fake.NewClientset()
	factory, informers := newInformers(client)
	recorder := func(string) events.EventRecorder { return nil }
	made, err := scheduler.New(ctx, client, factory, nil, recorder, scheduler.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	profile := made.Profiles[corev1.DefaultSchedulerName]
	return &simulator{
		ctx:       ctx,
		logger:    klog.FromContext(ctx),
		scheduler: made,
		framework: profile,
		snapshot:  profile.SnapshotSharedLister().(*internalcache.Snapshot),
		informers: informers,
		admission: newAdmission(factory),
		reserved:  map[types.UID]*reservation{},
	}, nil
}

// of returns the informer of an object's kind.
func (s *simulator) of(object runtime.Object) *informer {
	return s.informers[reflect.TypeOf(object)]
}

// load replaces the cluster's objects by these.
func (s *simulator) load(objects []runtime.Object) error {
	// Remove pods first: the scheduler's cache keeps a node as long as the node has pods.
	if err := s.of(&corev1.Pod{}).clear(); err != nil {
		return err
	}
	for _, informer := range s.informers {
		if err := informer.clear(); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if ended(object) {
			continue
		}
		if err := s.of(object).add(object); err != nil {
			return err
		}
	}
	return s.update()
}

// ended returns whether a pod has ended. The scheduler does not see ended pods, because its informer selects by phase.
func ended(object runtime.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

func (s *simulator) update() error {
	return s.scheduler.Cache.UpdateSnapshot(s.logger, s.snapshot)
}

// enqueued returns whether the scheduler tries to place the pod at all.
func (s *simulator) enqueued(pod *corev1.Pod) bool {
	if _, ok := s.scheduler.Profiles[pod.Spec.SchedulerName]; !ok {
		return false
	}
	for _, plugin := range s.framework.PreEnqueuePlugins() {
		if !plugin.PreEnqueue(s.ctx, pod).IsSuccess() {
			return false
		}
	}
	return true
}

// cycle is one attempt to place a pod, with the results of PreFilter.
type cycle struct {
	simulator *simulator
	state     *framework.CycleState
	pod       *corev1.Pod
	nodes     *framework.PreFilterResult
	status    *fwk.Status
}

func (s *simulator) prefilter(pod *corev1.Pod) (*cycle, error) {
	state := framework.NewCycleState()
	nodes, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, pod)
	if !status.IsSuccess() && !status.IsRejected() && !waitsForClass(status) {
		return nil, fmt.Errorf("PreFilter of %s: %s", pod.Name, status.Message())
	}
	return &cycle{s, state, pod, nodes, status}, nil
}

// waitsForClass returns whether the pod stays pending until the claim's storage class is created.
func waitsForClass(status *fwk.Status) bool {
	return strings.Contains(status.Message(), "storageclass.storage.k8s.io") &&
		strings.Contains(status.Message(), "not found")
}

// local returns whether only a node's own content decides about the node, not pods or volumes elsewhere.
func (c *cycle) local() bool {
	skipped := c.state.GetSkipFilterPlugins()
	elsewhere := []string{"PodTopologySpread", "InterPodAffinity", "VolumeBinding", "VolumeRestrictions"}
	return c.status.IsSuccess() && skipped.HasAll(elsewhere...)
}

// filter runs the filters as the scheduler does: both with and without the pods nominated for the node.
func (c *cycle) filter(node string) (*fwk.Status, error) {
	if !c.status.IsSuccess() {
		return c.status, nil
	}
	if !c.nodes.AllNodes() && !c.nodes.NodeNames.Has(node) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "left out by PreFilter"), nil
	}
	info, err := c.simulator.snapshot.Get(node)
	if err != nil {
		return nil, err
	}
	status := c.simulator.framework.RunFilterPluginsWithNominatedPods(c.simulator.ctx, c.state, c.pod, info)
	if status.Code() == fwk.Error {
		return nil, fmt.Errorf("Filter of %s on %s: %s", c.pod.Name, node, status.Message())
	}
	return status, nil
}

// choose returns the node that the scheduler would choose for the pod.
func (s *simulator) choose(pod *corev1.Pod) (string, error) {
	result, err := s.scheduler.SchedulePod(s.ctx, s.framework, framework.NewCycleState(), pod)
	return result.SuggestedHost, err
}

// place puts the pod on the node. Like the scheduler before the API server's confirmation, it assumes the pod.
func (s *simulator) place(pod *corev1.Pod, node string) error {
	pod.Spec.NodeName = node
	return s.scheduler.Cache.AssumePod(s.logger, pod)
}

func (s *simulator) take(pod *corev1.Pod) error {
	err := s.scheduler.Cache.ForgetPod(s.logger, pod)
	pod.Spec.NodeName = ""
	return err
}
