// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/workspaces"
)

const (
	// annotationTemplate on the pod holds the digest of what it was made from.
	annotationTemplate = "plangate.dev/template-digest"
	// containerName is the container that runs Pulumi.
	containerName = workspaces.PodContainer

	// userID is that of the user "pulumi" in Pulumi's own non-root images.
	userID = 1000
	// gracePeriod lets a running update reach the end of its step and release its lock.
	gracePeriod = 300
	// maxHostName is the longest that a host name may be.
	maxHostName = 63
	// stopMargin is what of it is left for the agent itself.
	stopMargin = 20

	volumeBin  = "plangate-bin"
	volumeWork = "plangate-work"
	volumeTmp  = "plangate-tmp"
	volumeTLS  = "plangate-tls"
	// volumeSigners is there when signers are required.
	volumeSigners = "plangate-signers"

	dirBin     = "/plangate/bin"
	dirWork    = "/plangate/work"
	dirTLS     = "/plangate/tls"
	dirSigners = "/plangate/signers"
	// fileSigners is the key of the object that holds the required signers.
	fileSigners = "signers.yaml"
)

// podName is the name of a Workspace's pod. It is always the same, so that there are never two.
func podName(ws *v1alpha1.Workspace) string { return podNameOf(ws.Name) }

func podNameOf(workspace string) string { return workspace + "-workspace" }

// isPodOf reports whether a pod is that of a Workspace, and not of another of the same name.
func isPodOf(ws *v1alpha1.Workspace, pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelWorkspaceUID] == string(ws.UID)
}

// tlsName is the name of the Secret that the agent serves with.
func tlsName(ws *v1alpha1.Workspace) string { return ws.Name + "-workspace-tls" }

// template is what podTemplate may hold.
type template struct {
	Metadata struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata,omitempty"`
	Spec corev1.PodSpec `json:"spec,omitempty"`
}

// renderPod renders the pod that the Workspace asks for, with the digest of all that went into it.
func renderPod(ws *v1alpha1.Workspace, settings Settings) (*corev1.Pod, string, error) {
	pod := basePod(ws, settings)
	if ws.Spec.PodTemplate != nil {
		patched, err := overlay(pod, ws.Spec.PodTemplate.Raw)
		if err != nil {
			return nil, "", fmt.Errorf("spec.podTemplate cannot be laid over the pod: %w", err)
		}
		pod = patched
	}
	// The labels and names that the operator finds its pods by are not the template's to change.
	pod.Name, pod.Namespace, pod.GenerateName = podName(ws), ws.Namespace, ""
	metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelWorkspace, ws.Name)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelWorkspaceUID, string(ws.UID))
	// No owner: see LabelWorkspaceUID. The finalizer of the Workspace removes the pod.
	pod.OwnerReferences = nil
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(text)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationTemplate, digest)
	// No two pods have one host name, ever: by it a lock that Pulumi left in a pod that is gone is known to be ours.
	pod.Spec.Hostname = hostName(pod.Name)
	return pod, digest, nil
}

// hostName is a new host name for a pod: its name, cut to what a host name may be, and 40 random bits.
func hostName(pod string) string {
	id := strings.ToLower(rand.Text()[:8])
	base := strings.Trim(strings.ReplaceAll(pod, ".", "-"), "-")
	return strings.Trim(base[:min(len(base), maxHostName-len(id)-1)], "-") + "-" + id
}

func overlay(pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&template{}); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the object")
	}
	base, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(base, patch, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	out := &corev1.Pod{}
	return out, json.Unmarshal(merged, out)
}

func basePod(ws *v1alpha1.Workspace, settings Settings) *corev1.Pod {
	no, yes, user := false, true, int64(userID)
	grace := int64(gracePeriod)
	restricted := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"app.kubernetes.io/name": "plangate-workspace", "app.kubernetes.io/managed-by": "plangate"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: ws.Spec.ServiceAccountName, EnableServiceLinks: &no, TerminationGracePeriodSeconds: &grace,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{{
				Name: "install-agent", Image: settings.ManagerImage, Command: []string{"/agent", "install", dirBin},
				SecurityContext: restricted, VolumeMounts: []corev1.VolumeMount{{Name: volumeBin, MountPath: dirBin}},
			}},
			Containers: []corev1.Container{pulumiContainer(ws, settings, restricted)},
			Volumes: []corev1.Volume{
				{Name: volumeBin, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: volumeTmp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: volumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: tlsName(ws)}}},
				workVolume(ws),
			},
		},
	}
	requireSigners(ws, &pod.Spec)
	return pod
}

// requireSigners gives the agent the file with those without whose signature it applies nothing. It is a folder that is
// mounted, and not the file, so that changes arrive.
func requireSigners(ws *v1alpha1.Workspace, spec *corev1.PodSpec) {
	required := ws.Spec.RequiredSigners
	if required == nil {
		return
	}
	volume := corev1.Volume{Name: volumeSigners}
	if required.Secret != "" {
		volume.Secret = &corev1.SecretVolumeSource{SecretName: required.Secret}
	} else {
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: required.ConfigMap}}
	}
	spec.Volumes = append(spec.Volumes, volume)
	c := &spec.Containers[0]
	c.Command = append(c.Command, "--require-signers="+dirSigners+"/"+fileSigners)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeSigners, MountPath: dirSigners, ReadOnly: true})
}

func workVolume(ws *v1alpha1.Workspace) corev1.Volume {
	v := corev1.Volume{Name: volumeWork}
	if ws.Spec.Cache == nil {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return v
	}
	v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ws.Spec.Cache.PersistentVolumeClaim}
	return v
}

func pulumiContainer(ws *v1alpha1.Workspace, settings Settings, security *corev1.SecurityContext) corev1.Container {
	image := ws.Spec.Image
	if image == "" {
		image = settings.WorkspaceImage
	}
	return corev1.Container{
		Name: containerName, Image: image, ImagePullPolicy: ws.Spec.ImagePullPolicy, Resources: ws.Spec.Resources, SecurityContext: security,
		Command: []string{dirBin + "/agent", "serve", fmt.Sprintf("--listen=:%d", operations.Port), "--tls-dir=" + dirTLS, "--work-dir=" + dirWork},
		Env: []corev1.EnvVar{
			{Name: "PLANGATE_GRACE", Value: fmt.Sprintf("%ds", gracePeriod-stopMargin)},
			{Name: "PLANGATE_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
		},
		Ports: []corev1.ContainerPort{{Name: "agent", ContainerPort: operations.Port}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(operations.Port)}},
			PeriodSeconds: 1, FailureThreshold: 3,
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeBin, MountPath: dirBin, ReadOnly: true},
			{Name: volumeBin, MountPath: "/etc/passwd", SubPath: "passwd", ReadOnly: true},
			{Name: volumeBin, MountPath: "/etc/group", SubPath: "group", ReadOnly: true},
			{Name: volumeWork, MountPath: dirWork},
			{Name: volumeTmp, MountPath: "/tmp"},
			{Name: volumeTLS, MountPath: dirTLS, ReadOnly: true},
		},
	}
}
