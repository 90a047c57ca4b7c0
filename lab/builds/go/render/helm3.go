package main

import (
	"bytes"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

type helm3 struct {
	chart  *chart.Chart
	schema schema
}

func loadHelm3(path string) (helm3, error) {
	loaded, err := loader.Load(path)
	if err != nil {
		return helm3{}, err
	}
	compiled, err := compileSchema(loaded.Name(), loaded.Schema)
	return helm3{loaded, compiled}, err
}

// render does the same as cmd/helm/template.go of Helm 3.
func (helm helm3) render(asked request) (string, string, error) {
	values, err := asked.values3()
	if err != nil {
		return "", "", err
	}
	all, err := chartutil.CoalesceValues(helm.chart, values)
	if err != nil {
		return "", "", err
	}
	if !asked.skipSchema {
		if err := helm.schema.check(all); err != nil {
			return "", "", err
		}
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...interface{}) {}})
	install.DryRun, install.ClientOnly, install.DryRunOption, install.Replace = true, true, "true", true
	install.ReleaseName, install.Namespace = asked.Release, asked.Namespace
	install.APIVersions, install.SkipSchemaValidation = asked.APIVersions, true
	if asked.KubeVersion != "" {
		version, err := chartutil.ParseKubeVersion(asked.KubeVersion)
		if err != nil {
			return "", "", err
		}
		install.KubeVersion = version
	}
	release, err := install.Run(helm.chart, values)
	if err != nil && release != nil {
		return "", "", fmt.Errorf("%w\n\nUse --debug flag to render out invalid YAML", err)
	}
	if err != nil {
		return "", "", err
	}
	var manifests bytes.Buffer
	fmt.Fprintln(&manifests, strings.TrimSpace(release.Manifest))
	for _, hook := range release.Hooks {
		fmt.Fprintf(&manifests, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return manifests.String(), release.Info.Notes, nil
}
