package main

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// informer passes each change to its handlers at once, in the caller's goroutine, so there is no watch to wait for.
type informer struct {
	cache.SharedIndexInformer
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

type synced struct{}

func (synced) HasSynced() bool { return true }

// newInformers returns a factory that uses our informers for these kinds, and our informers by type.
func newInformers(client kubernetes.Interface) (informers.SharedInformerFactory, map[reflect.Type]*informer) {
	factory := informers.NewSharedInformerFactory(client, 0)
	ours := map[reflect.Type]*informer{}
	kinds := []runtime.Object{
		&corev1.Node{}, &corev1.Pod{}, &corev1.Namespace{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
		&storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.VolumeAttachment{},
		&storagev1.CSIStorageCapacity{}, &schedulingv1.PriorityClass{},
	}
	for _, kind := range kinds {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		one := &informer{indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)}
		ours[reflect.TypeOf(kind)] = one
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return one })
	}
	return factory, ours
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return synced{}, nil
}

func (i *informer) GetIndexer() cache.Indexer { return i.indexer }
func (i *informer) GetStore() cache.Store     { return i.indexer }
func (i *informer) HasSynced() bool           { return true }

func (i *informer) SetTransform(cache.TransformFunc) error { return nil }

func (i *informer) AddIndexers(indexers cache.Indexers) error {
	known := i.indexer.GetIndexers()
	for name, index := range indexers {
		if _, found := known[name]; !found {
			if err := i.indexer.AddIndexers(cache.Indexers{name: index}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *informer) add(object any) error {
	if err := i.indexer.Add(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnAdd(object, false)
	}
	return nil
}

func (i *informer) change(old, object any) error {
	if err := i.indexer.Update(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnUpdate(old, object)
	}
	return nil
}

func (i *informer) remove(object any) error {
	if err := i.indexer.Delete(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnDelete(object)
	}
	return nil
}

func (i *informer) clear() error {
	for _, object := range i.indexer.List() {
		if err := i.remove(object); err != nil {
			return err
		}
	}
	return nil
}
