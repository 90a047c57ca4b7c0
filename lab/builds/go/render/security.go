package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

type pod struct {
	Level    api.Level         `json:"level"`
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

// judge returns per pod what the Pod Security admission of the API server would say against it.
func judge(pods []pod) [][]string {
	given := make([][]string, len(pods))
	for i := range pods {
		given[i] = []string{}
		level := api.LevelVersion{Level: pods[i].Level, Version: api.LatestVersion()}
		for _, result := range evaluator.EvaluatePod(level, &pods[i].Metadata, &pods[i].Spec) {
			if !result.Allowed {
				given[i] = append(given[i], fmt.Sprintf("%s (%s)", result.ForbiddenReason, result.ForbiddenDetail))
			}
		}
	}
	return given
}
