package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	release4 "helm.sh/helm/v4/pkg/release/v1"
)

type helm4 struct {
	chart  chart.Charter
	schema schema
}

func loadHelm4(path string) (helm4, error) {
	loaded, err := loader.Load(path)
	if err != nil {
		return helm4{}, err
	}
	accessor, err := chart.NewAccessor(loaded)
	if err != nil {
		return helm4{}, err
	}
	compiled, err := compileSchema(accessor.Name(), accessor.Schema())
	return helm4{loaded, compiled}, err
}

// render does the same as pkg/cmd/template.go of Helm 4.
func (helm helm4) render(asked request) (string, string, error) {
	values, err := asked.values4()
	if err != nil {
		return "", "", err
	}
	all, err := util.CoalesceValues(helm.chart, values)
	if err != nil {
		return "", "", err
	}
	if !asked.skipSchema {
		if err := helm.schema.check(all); err != nil {
			return "", "", err
		}
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.Replace = action.DryRunClient, true
	install.ReleaseName, install.Namespace = asked.Release, asked.Namespace
	install.APIVersions, install.SkipSchemaValidation = asked.APIVersions, true
	if asked.KubeVersion != "" {
		version, err := common.ParseKubeVersion(asked.KubeVersion)
		if err != nil {
			return "", "", err
		}
		install.KubeVersion = version
	}
	releaser, err := install.Run(helm.chart, values)
	release, isRelease := releaser.(*release4.Release)
	if err != nil && release != nil {
		return "", "", fmt.Errorf("%w\n\nUse --debug flag to render out invalid YAML", err)
	}
	if err != nil {
		return "", "", err
	}
	if !isRelease {
		return "", "", errors.New("Helm 4 made no v1 release")
	}
	var manifests bytes.Buffer
	fmt.Fprintln(&manifests, strings.TrimSpace(release.Manifest))
	for _, hook := range release.Hooks {
		fmt.Fprintf(&manifests, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return manifests.String(), release.Info.Notes, nil
}
