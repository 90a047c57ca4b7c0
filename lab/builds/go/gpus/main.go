// Gpus is a device plugin for fake GPUs. kubelet counts nvidia.com/gpu as on a node with real GPUs. A container that
// gets a fake GPU can see that from the variable DISTRAIN_PRETENDED_GPUS.
//
//	gpus COUNT
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "distrain-lab.sock"
)

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := serve(count); err != nil {
			log.Print(err)
		}
		time.Sleep(time.Second)
	}
}

// serve registers with kubelet, and returns once kubelet has restarted: kubelet then removes every plugin's socket.
func serve(count int) error {
	path := filepath.Join(api.DevicePluginPath, socket)
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{devices: devices(count)})
	go server.Serve(listener)
	defer server.Stop()
	if err := register(); err != nil {
		return err
	}
	log.Printf("registered %d %s", count, resource)
	for {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("kubelet has started anew: %w", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func register() error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(context.Background(), request)
	return err
}

func devices(count int) []*api.Device {
	devices := make([]*api.Device, count)
	for number := range devices {
		devices[number] = &api.Device{ID: fmt.Sprintf("pretended-%d", number), Health: api.Healthy}
	}
	return devices
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (plugin *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (plugin *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: plugin.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (plugin *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range request.ContainerRequests {
		container := &api.ContainerAllocateResponse{Envs: map[string]string{"DISTRAIN_PRETENDED_GPUS": "1"}}
		answer.ContainerResponses = append(answer.ContainerResponses, container)
	}
	return answer, nil
}
