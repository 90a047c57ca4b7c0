// protobuf reads a list of pods as JSON from stdin, and writes the list in the protobuf encoding of Kubernetes.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	core "k8s.io/api/core/v1"
)

func main() {
	if err := encode(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func encode() error {
	var list core.PodList
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		return err
	}
	encoded, err := list.Marshal()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(encoded)
	return err
}
