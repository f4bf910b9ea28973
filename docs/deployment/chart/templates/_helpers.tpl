{{- define "discreet.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "discreet.selector" -}}
{app.kubernetes.io/name: discreet, app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .part }}}
{{- end }}

{{- define "discreet.metadata" -}}
name: {{ .part }}
labels:
  app.kubernetes.io/name: discreet
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  app.kubernetes.io/component: {{ .part }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "discreet.locked" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{/* A pod of one part: its arguments, ports and resources, and what is the same for all. */}}
{{- define "discreet.pod" -}}
{{- $values := .root.Values -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 40
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if ne .part "migrate" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "discreet.selector" . }}}
{{- end }}
initContainers:
  # Secrets are copied into memory, readable by their owner alone, which discreet insists on.
  - name: secrets
    image: {{ include "discreet.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command: [sh, -c, "install --mode=0400 /secrets/* /run/discreet/"]
    securityContext: {{ include "discreet.locked" . }}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
    volumeMounts:
      - {name: secrets, mountPath: /secrets, readOnly: true}
      - {name: copied, mountPath: /run/discreet}
containers:
  - name: {{ .part }}
    image: {{ include "discreet.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson .args }}
    env:
      - {name: DISCREET_CREDENTIALS, value: /run/discreet}
      - {name: DISCREET_SECRETS_FILE, value: /run/discreet/secrets.json}
      - {name: DISCREET_STATE, value: /var/lib/discreet/state} # root owns the volume, so a folder inside it
    {{- if ne .part "migrate" }}
    envFrom: [{configMapRef: {name: discreet}}]
    {{- end }}
    securityContext: {{ include "discreet.locked" . }}
    resources: {{- toYaml .resources | nindent 6 }}
    {{- with .ports }}
    ports:
      {{- range $name, $port := . }}
      - {name: {{ $name }}, containerPort: {{ $port }}}
      {{- end }}
    {{- end }}
    {{- with .probed }}
    startupProbe: {httpGet: {path: /healthz, port: {{ . }}}, periodSeconds: 2, failureThreshold: 90}
    livenessProbe: {httpGet: {path: /healthz, port: {{ . }}}, periodSeconds: 15, timeoutSeconds: 5, failureThreshold: 4}
    readinessProbe: {httpGet: {path: /readyz, port: {{ . }}}, periodSeconds: 10, timeoutSeconds: 8, failureThreshold: 2}
    {{- end }}
    volumeMounts:
      - {name: copied, mountPath: /run/discreet, readOnly: true}
      - {name: state, mountPath: /var/lib/discreet}
      - {name: temporary, mountPath: /tmp}
      {{- if and $values.storage.objectSecret (ne .part "migrate") }}
      - {name: objects, mountPath: /run/objects, readOnly: true}
      {{- end }}
volumes:
  - {name: copied, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  {{- if and (eq .part "api") $values.storage.spoolClass }}
  - name: state
    ephemeral:
      volumeClaimTemplate:
        spec:
          accessModes: [ReadWriteOnce]
          storageClassName: {{ $values.storage.spoolClass }}
          resources: {requests: {storage: {{ $values.storage.spool }}}}
  {{- else }}
  - {name: state, emptyDir: {sizeLimit: {{ eq .part "api" | ternary $values.storage.spool "4Gi" }}}}
  {{- end }}
  - {name: temporary, emptyDir: {sizeLimit: 2Gi}}
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        - secret: {name: {{ $values.secrets.app }}}
        {{- if eq .part "migrate" }}
        - secret: {name: {{ $values.secrets.owner }}}
        {{- end }}
  {{- if and $values.storage.objectSecret (ne .part "migrate") }}
  - {name: objects, secret: {secretName: {{ $values.storage.objectSecret }}, defaultMode: 0440}}
  {{- end }}
{{- end }}

{{- define "discreet.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata: {{- include "discreet.metadata" . | nindent 2 }}
spec:
  {{- if .replicas }}
  replicas: {{ .replicas }}
  {{- end }}
  selector: {matchLabels: {{ include "discreet.selector" . }}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata:
      labels: {{ include "discreet.selector" . }}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ .ports.monitor | quote }}
        discreet/settings: {{ include (print .root.Template.BasePath "/settings.yaml") .root | sha256sum }}
    spec: {{- include "discreet.pod" . | nindent 6 }}
{{- end }}

{{/* An egress rule: the database may be reached. */}}
{{- define "discreet.database" -}}
- ports: [{port: {{ .Values.database.port }}}]
  {{- with .Values.networkPolicy.databaseCidrs }}
  to:
    {{- range . }}
    - {ipBlock: {cidr: {{ . | quote }}}}
    {{- end }}
  {{- end }}
{{- end }}
