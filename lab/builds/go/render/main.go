// Render renders a chart many times, with Helm 3 and Helm 4, as `helm template` does, and judges pods by the Pod
// Security Standards. One process does thousands of renderings, because starting Helm takes longer than most
// renderings.
//
// Usage: render CHART. Each line of the input is a request. Each line of the output is an answer, in the same order:
//
//	{"id": "a", "values": {...}, "release": "run1", "namespace": "default", "apiVersions": [...], "kubeVersion": "1.34",
//	 "helms": ["helm3", "helm4"], "again": true}
//	{"id": "a", "helm3": {"manifest": "...", "notes": "..."}, "helm4": {"error": "..."}}
//
// Instead of values, apiVersions, kubeVersion and namespace, a request may have arguments like those of `helm template
// RELEASE CHART`, with paths relative to a folder. A request may name another chart. The schemas of that chart's
// subcharts are not checked:
//
//	{"id": "c", "arguments": ["--values", "file.yaml", "--set", "a=1"], "release": "run1", "helms": ["helm4"],
//	 "folder": "/work", "chart": "/work/chart"}
//
// With again, the chart is rendered a second time, and the result must be the same.
//
//	{"id": "b", "pods": [{"level": "restricted", "version": "latest", "metadata": {...}, "spec": {...}}]}
//	{"id": "b", "pods": ["violates PodSecurity \"restricted:latest\": privileged (container \"a\" must not ...)"]}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
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
	Folder      string          `json:"folder"`
	Chart       string          `json:"chart"`
	Helms       []string        `json:"helms"`
	Again       bool            `json:"again"`
	Pods        []pod           `json:"pods"`
	options     *valueOptions
	skipSchema  bool
}

type answer struct {
	ID    string    `json:"id"`
	Helm3 *rendered `json:"helm3,omitempty"`
	Helm4 *rendered `json:"helm4,omitempty"`
	Pods  []string  `json:"pods,omitempty"`
}

// rendered is Helm's output: the manifest as on standard output, or the error as after "Error: ".
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
	three, four, err := load(chart, []string{"helm3", "helm4"})
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
		if err := answers.Encode(answered(asked, three, four)); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// load loads the chart with each of these Helms.
func load(chart string, helms []string) (three, four renderer, err error) {
	if slices.Contains(helms, "helm3") {
		three, err = loadHelm3(chart)
	}
	if err == nil && slices.Contains(helms, "helm4") {
		four, err = loadHelm4(chart)
	}
	return three, four, err
}

// answered answers a request. Wrong arguments, or a chart that cannot be loaded, lead to an error as the answer.
func answered(asked request, three, four renderer) answer {
	err := asked.parse()
	if err == nil && asked.Chart != "" {
		three, four, err = load(asked.Chart, asked.Helms)
	}
	if err != nil {
		three, four = refusal{err}, refusal{err}
	}
	return respond(asked, three, four)
}

// refusal is a renderer that gives the same error to each request.
type refusal struct{ error }

func (refusal refusal) render(request) (string, string, error) {
	return "", "", refusal.error
}

// respond renders with both Helms at the same time.
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
