{{- define "fencepost.name" -}}
{{- printf "%s" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "fencepost.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fencepost.labels" -}}
{{ include "fencepost.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "fencepost.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "fencepost.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "fencepost.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* What no container of a worker may do, unless its values say so themselves. */}}
{{- define "fencepost.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}

{{/* With the worker's image and without rights, unless they say otherwise. `merge` would not let them say false. */}}
{{- define "fencepost.initContainers" -}}
{{- range .Values.initContainers }}
{{- $security := include "fencepost.containerSecurity" $ | fromYaml -}}
{{- range $key, $value := .securityContext -}}
{{- $_ := set $security $key $value -}}
{{- end -}}
{{- $own := dict "image" (include "fencepost.image" $) "imagePullPolicy" $.Values.image.pullPolicy }}
- {{ toYaml (merge (dict "securityContext" $security) . $own) | indent 2 | trim }}
{{- end }}
{{- end -}}

{{/* Over nodes and zones, of this release's workers, unless the values name others. */}}
{{- define "fencepost.topologySpread" -}}
{{- range .Values.topologySpreadConstraints }}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "fencepost.selector" $ | fromYaml)) }}
- {{ toYaml (merge (deepCopy .) $own) | indent 2 | trim }}
{{- end }}
{{- end -}}

{{/* Variables of the worker's own: the chart's settings refer to the first two. */}}
{{- define "fencepost.extraEnv" -}}
{{- range .Values.extraEnv }}
{{- if has .name (list "POD_NAME" "POD_NAMESPACE") -}}
{{- fail (printf "extraEnv: %s is the chart's; the worker's file uses it" .name) -}}
{{- end }}
- {{ toYaml . | indent 2 | trim }}
{{- end }}
{{- end -}}

{{- define "fencepost.scheme" -}}
{{- if .Values.https.secret -}} https {{- else -}} http {{- end -}}
{{- end -}}

{{/* Any answer will do, whatever Kafka and Spark do. */}}
{{- define "fencepost.answers" -}}
exec:
  command:
    - python
    - -c
    - |
      import ssl, urllib.error, urllib.request
      trusting = ssl._create_unverified_context()  # it asks itself
      try:
          urllib.request.urlopen("{{ include "fencepost.scheme" . }}://127.0.0.1:{{ .Values.port }}/health?live", timeout=8, context=trusting)
      except urllib.error.HTTPError:
          pass
{{- end -}}

{{/* A setting that is given precedes, an empty one, too; `merge` would not let it. */}}
{{- define "fencepost.settings" -}}
{{- $name := include "fencepost.name" . -}}
{{- $own := dict
  "group.id" $name
  "config.storage.topic" (printf "%s-configs" $name)
  "offset.storage.topic" (printf "%s-offsets" $name)
  "status.storage.topic" (printf "%s-status" $name)
  "listeners" (printf "%s://0.0.0.0:%d" (include "fencepost.scheme" .) (int .Values.port))
  "rest.advertised.host.name" (printf "${env:POD_NAME}.%s-workers.${env:POD_NAMESPACE}.svc" $name)
  "rest.advertised.port" (printf "%d" (int .Values.port))
  "rest.open.paths" "health,metrics"
  "connector.client.config.override.policy" "Allowlist"
  "connector.client.config.override.allowlist" "acks,auto.offset.reset,batch.size,buffer.memory,client.id,compression.type,delivery.timeout.ms,fetch.max.bytes,fetch.max.wait.ms,fetch.min.bytes,linger.ms,max.partition.fetch.bytes,max.poll.interval.ms,max.poll.records,max.request.size,request.timeout.ms,sasl.jaas.config,sasl.mechanism,session.timeout.ms,transaction.timeout.ms"
  "config.providers" "env,directory"
  "config.providers.env.class" "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
  "config.providers.env.param.allowlist.pattern" "CONNECT_.*"
  "config.providers.directory.class" "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
  "config.providers.directory.param.allowed.paths" "/etc/fencepost/secrets"
-}}
{{- if .Values.https.secret -}}
{{- $_ := set $own "listeners.https.ssl.keystore.location" "/etc/fencepost/https" -}}
{{- with .Values.https.authority -}}
{{- $_ := set $own "listeners.https.ssl.truststore.location" (printf "/etc/fencepost/https/%s" .) -}}
{{- end -}}
{{- if eq "required" (get .Values.worker "listeners.https.ssl.client.auth" | lower) -}}
{{- fail "Kubernetes' probes show no certificate: set worker.listeners.https.ssl.client.auth to requested" -}}
{{- end -}}
{{- end -}}
{{- if .Values.auth.usersSecret -}}
{{- $_ := set $own "rest.basic.users.file" "/etc/fencepost/users/users.properties" -}}
{{- else if .Values.auth.unprotected -}}
{{- $_ := set $own "rest.unprotected" "accepted" -}}
{{- else if not (hasKey .Values.worker "rest.oidc.issuer.url") -}}
{{- fail "callers have to be asked who they are: set auth.usersSecret, worker.rest.oidc.*, or auth.unprotected=true" -}}
{{- end -}}
{{- range $key, $value := .Values.worker -}}
{{- $_ := set $own $key $value -}}
{{- end -}}
{{- range $key, $value := $own }}
{{ $key }}={{ if kindIs "float64" $value }}{{ toJson $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end -}}
