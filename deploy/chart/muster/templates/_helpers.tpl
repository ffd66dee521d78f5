{{- define "muster.name" -}}
{{- if contains "muster" .Release.Name -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- else -}}{{ printf "%s-muster" .Release.Name | trunc 40 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: muster
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* Of a pod: call with (list . "component"). */ -}}
{{- define "muster.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "muster.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- define "muster.passwords" -}}
{{ .Values.passwords.existingSecret | default (printf "%s-passwords" (include "muster.name" .)) }}
{{- end -}}

{{- define "muster.kafka.bootstrap" -}}
{{- if .Values.kafka.bootstrap -}}{{ .Values.kafka.bootstrap }}
{{- else if .Values.try.enabled -}}{{ include "muster.name" . }}-kafka:9092
{{- else -}}{{ fail "kafka.bootstrap: an address host:port is needed, or try.enabled" }}{{- end -}}
{{- end -}}

{{- define "muster.database.host" -}}
{{- if .Values.database.host -}}{{ .Values.database.host }}
{{- else if .Values.try.enabled -}}{{ include "muster.name" . }}-postgres
{{- else -}}{{ fail "database.host: a name or an address is needed, or try.enabled" }}{{- end -}}
{{- end -}}

{{- define "muster.database.options" -}}
?sslmode={{ .Values.database.sslMode }}
{{- if .Values.database.caSecret.name }}&sslrootcert=/run/authorities/database/{{ .Values.database.caSecret.key }}{{ end -}}
{{- end -}}

{{- /* A password by reference: (list . "the name of its variable" secret key). */ -}}
{{- define "muster.secretVariable" -}}
- name: {{ index . 0 }}
  valueFrom: {secretKeyRef: {name: {{ index . 1 | quote }}, key: {{ index . 2 | quote }}}}
{{- end -}}

{{- define "muster.kafka.environment" -}}
- {name: MUSTER_KAFKA_BOOTSTRAP, value: {{ include "muster.kafka.bootstrap" . | quote }}}
- {name: MUSTER_KAFKA_SECURITY_PROTOCOL, value: {{ .Values.kafka.securityProtocol }}}
{{- if .Values.kafka.caSecret.name }}
- {name: MUSTER_KAFKA_CA_FILE, value: {{ printf "/run/authorities/kafka/%s" .Values.kafka.caSecret.key | quote }}}
{{- end }}
- {name: MUSTER_TOPIC_PREFIX, value: {{ .Values.topicPrefix }}}
- {name: MUSTER_TOPIC_REPLICATION, value: {{ .Values.kafka.replication | quote }}}
- {name: MUSTER_TOPIC_MIN_INSYNC_REPLICAS, value: {{ .Values.kafka.minInsyncReplicas | quote }}}
{{- end -}}

{{- /* The broker's user that makes topics and users, and the owner of the tables. */ -}}
{{- define "muster.kafka.adminSecret" -}}
{{- $secret := .Values.kafka.admin.passwordSecret -}}
{{- if $secret.name -}}{{ list $secret.name $secret.key | toJson }}
{{- else if .Values.try.enabled -}}{{ list (include "muster.passwords" .) .Values.kafka.admin.user | toJson }}
{{- else -}}{{ fail "kafka.admin.passwordSecret.name: a Secret is needed, or try.enabled" }}{{- end -}}
{{- end -}}

{{- define "muster.database.ownerSecret" -}}
{{- $secret := .Values.database.owner.passwordSecret -}}
{{- if $secret.name -}}{{ list $secret.name $secret.key | toJson }}
{{- else if .Values.try.enabled -}}{{ list (include "muster.passwords" .) "database-owner" | toJson }}
{{- else -}}{{ fail "database.owner.passwordSecret.name: a Secret is needed, or try.enabled" }}{{- end -}}
{{- end -}}

{{- /* A pod that acts as the broker's administrator and the owner of the tables. */ -}}
{{- define "muster.administrator.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{ include "muster.podSecurity" . }}
{{- include "muster.placing" . }}
{{- end -}}

{{- /* Its container, but for name and command; it ends with the mounts. */ -}}
{{- define "muster.administrator.container" -}}
{{- $admin := include "muster.kafka.adminSecret" . | fromJsonArray -}}
{{- $owner := include "muster.database.ownerSecret" . | fromJsonArray -}}
image: {{ include "muster.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
{{ include "muster.kafka.environment" . }}
- {name: MUSTER_KAFKA_USER, value: {{ .Values.kafka.admin.user | quote }}}
{{ include "muster.secretVariable" (list "MUSTER_KAFKA_PASSWORD" (index $admin 0) (index $admin 1)) }}
{{ include "muster.secretVariable" (list "DATABASE_PASSWORD" (index $owner 0) (index $owner 1)) }}
- name: MUSTER_DATABASE_URL
  value: {{ printf "postgresql://%s:$(DATABASE_PASSWORD)@%s:%v/%s%s" .Values.database.owner.user (include "muster.database.host" .) .Values.database.port .Values.database.name (include "muster.database.options" .) | quote }}
securityContext: {{ include "muster.containerSecurity" . }}
resources: {{ toJson .Values.resources.default }}
volumeMounts:
{{ include "muster.mounts" . }}
{{- end -}}

{{- define "muster.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.kafka.caSecret.name }}
- {name: kafka-authority, mountPath: /run/authorities/kafka, readOnly: true}
{{- end }}
{{- if .Values.database.caSecret.name }}
- {name: database-authority, mountPath: /run/authorities/database, readOnly: true}
{{- end }}
{{- end -}}

{{- define "muster.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 64Mi}}
{{- if .Values.kafka.caSecret.name }}
- {name: kafka-authority, secret: {secretName: {{ .Values.kafka.caSecret.name | quote }}}}
{{- end }}
{{- if .Values.database.caSecret.name }}
- {name: database-authority, secret: {secretName: {{ .Values.database.caSecret.name | quote }}}}
{{- end }}
{{- end -}}

{{- define "muster.podSecurity" -}}
{runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
{{- end -}}

{{- define "muster.containerSecurity" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end -}}

{{- /* Where the pods of the chart may run. */ -}}
{{- define "muster.placing" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}
