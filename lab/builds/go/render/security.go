package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// pod is a pod, with the level and version from its namespace's labels.
type pod struct {
	Level    string            `json:"level"`
	Version  string            `json:"version"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     corev1.PodSpec    `json:"spec"`
}

var evaluator = func() policy.Evaluator {
	made, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err)
	}
	return made
}()

// judge returns for each pod the message of Pod Security admission, or an empty string if the pod is admitted.
func judge(pods []pod) []string {
	given := make([]string, len(pods))
	for i := range pods {
		// For an invalid text, these functions return an error together with the level and version that the API server
		// uses instead.
		level, _ := api.ParseLevel(pods[i].Level)
		version, _ := api.ParseVersion(pods[i].Version)
		enforced := api.LevelVersion{Level: level, Version: version}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(enforced, &pods[i].Metadata, &pods[i].Spec))
		if !result.Allowed {
			given[i] = fmt.Sprintf("violates PodSecurity %q: %s", enforced.String(), result.ForbiddenDetail())
		}
	}
	return given
}
