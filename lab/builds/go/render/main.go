// Render renders one chart many times, with Helm 3 and with Helm 4, as `helm template` does, and judges pods by the Pod
// Security Standards. One process for thousands of renderings: starting Helm anew costs more than most of them.
//
// Usage: render CHART. Each line of the input is a request, each line of the output its answer, in the same order:
//
//	{"id": "a", "values": {...}, "release": "run1", "namespace": "default", "apiVersions": [...], "kubeVersion": "1.34",
//	 "helms": ["helm3", "helm4"], "again": true}
//	{"id": "a", "helm3": {"manifest": "...", "notes": "..."}, "helm4": {"error": "..."}}
//
// In place of values, apiVersions, kubeVersion and namespace there may be arguments, as of `helm template RELEASE CHART`:
//
//	{"id": "c", "arguments": ["--values", "file.yaml", "--set", "a=1"], "release": "run1", "helms": ["helm4"]}
//
// Again renders a second time, which must give the same.
//
//	{"id": "b", "pods": [{"level": "restricted", "version": "latest", "metadata": {...}, "spec": {...}}]}
//	{"id": "b", "pods": ["violates PodSecurity \"restricted:latest\": privileged (container \"a\" must not ...)"]}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

type request struct {
	ID          string          `json:"id"`
	Values      json.RawMessage `json:"values"`
	Release     string          `json:"release"`
	Namespace   string          `json:"namespace"`
	APIVersions []string        `json:"apiVersions"`
	KubeVersion string          `json:"kubeVersion"`
	Arguments   []string        `json:"arguments"`
	Helms       []string        `json:"helms"`
	Again       bool            `json:"again"`
	Pods        []pod           `json:"pods"`
	options     *valueOptions
}

type answer struct {
	ID    string    `json:"id"`
	Helm3 *rendered `json:"helm3,omitempty"`
	Helm4 *rendered `json:"helm4,omitempty"`
	Pods  []string  `json:"pods,omitempty"`
}

// rendered is what Helm prints: the manifest, as on its standard output, or the error, as after "Error: ".
type rendered struct {
	Manifest string `json:"manifest,omitempty"`
	Notes    string `json:"notes,omitempty"`
	Error    string `json:"error,omitempty"`
}

type renderer interface {
	render(request) (manifest, notes string, err error)
}

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func serve(chart string) error {
	three, err := loadHelm3(chart)
	if err != nil {
		return err
	}
	four, err := loadHelm4(chart)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for answers := json.NewEncoder(out); in.More(); {
		var asked request
		if err := in.Decode(&asked); err != nil {
			return err
		}
		if err := asked.parse(); err != nil {
			return err
		}
		if err := answers.Encode(respond(asked, three, four)); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// respond lets both Helms work at the same time.
func respond(asked request, three, four renderer) answer {
	if asked.Pods != nil {
		return answer{ID: asked.ID, Pods: judge(asked.Pods)}
	}
	given := answer{ID: asked.ID}
	var both sync.WaitGroup
	for _, name := range asked.Helms {
		switch name {
		case "helm3":
			both.Go(func() { given.Helm3 = try(three, asked) })
		case "helm4":
			both.Go(func() { given.Helm4 = try(four, asked) })
		}
	}
	both.Wait()
	return given
}

func try(helm renderer, asked request) *rendered {
	manifest, notes, err := helm.render(asked)
	if err != nil {
		return &rendered{Error: err.Error()}
	}
	if asked.Again {
		second, secondNotes, err := helm.render(asked)
		if err != nil || second != manifest || secondNotes != notes {
			return &rendered{Error: "the second rendering differs"}
		}
	}
	return &rendered{Manifest: manifest, Notes: notes}
}
