package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Answers each line with what Kafka's own classes make of it. Parts of a line are separated by tabs. */
class MirrorTools {
    private static final HexFormat HEX = HexFormat.of();
    private static final TopicPartition PLACE = new TopicPartition("t", 0);
    private static Store store = new Store();

    /** Reads no topic. */
    private static class Store extends OffsetSyncStore {
        @Override
        void backingStoreStart() {
        }
    }

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
        }
    }

    private static String answer(String[] given) throws Exception {
        return switch (given[0]) {
            case "sync" -> sync(record(given));
            case "checkpoint" -> checkpoint(Checkpoint.deserializeRecord(record(given)));
            case "heartbeat" -> heartbeat(Heartbeat.deserializeRecord(record(given)));
            case "names" -> names(given[1], given[2], given[3], given[4]);
            case "begin" -> begin();
            case "note" -> note(record(given));
            case "translate" -> translate(Long.parseLong(given[1]));
            case "upstream" -> new TreeSet<>(RemoteClusterUtils.upstreamClusters(cluster(given[1]))).toString();
            case "hops" -> "" + RemoteClusterUtils.replicationHops(cluster(given[1]), given[2]);
            case "topics" -> new TreeSet<>(RemoteClusterUtils.checkpointTopics(cluster(given[1]))).toString();
            case "offsets" -> offsets(given[1], given[2], given[3]);
            default -> throw new IllegalArgumentException(given[0]);
        };
    }

    private static ConsumerRecord<byte[], byte[]> record(String[] given) {
        return new ConsumerRecord<>("topic", 0, 0, HEX.parseHex(given[1]), HEX.parseHex(given[2]));
    }

    private static String bytes(byte[] key, byte[] value) {
        return HEX.formatHex(key) + "\t" + HEX.formatHex(value);
    }

    private static String sync(ConsumerRecord<byte[], byte[]> record) {
        var read = OffsetSync.deserializeRecord(record);
        var made = new OffsetSync(read.topicPartition(), read.upstreamOffset(), read.downstreamOffset());
        return bytes(made.recordKey(), made.recordValue());
    }

    private static String checkpoint(Checkpoint read) {
        var made = new Checkpoint(
            read.consumerGroupId(), read.topicPartition(), read.upstreamOffset(), read.downstreamOffset(), read.metadata());
        return bytes(made.recordKey(), made.recordValue());
    }

    private static String heartbeat(Heartbeat read) {
        var made = new Heartbeat(read.sourceClusterAlias(), read.targetClusterAlias(), read.timestamp());
        return bytes(made.recordKey(), made.recordValue());
    }

    private static String names(String kind, String separator, String isInternal, String topic) {
        var policy = kind.equals("Default") ? new DefaultReplicationPolicy() : new IdentityReplicationPolicy();
        var settings = new HashMap<String, Object>(Map.of("source.cluster.alias", "A"));
        settings.put("replication.policy.separator", separator);
        settings.put("replication.policy.internal.topic.separator.enabled", isInternal);
        policy.configure(settings);
        return String.join("\t",
            policy.formatRemoteTopic("A", topic), "" + policy.topicSource(topic), "" + policy.upstreamTopic(topic),
            policy.originalTopic(topic), policy.offsetSyncsTopic("A"), policy.checkpointsTopic("A"),
            "" + policy.isHeartbeatsTopic(topic), "" + policy.isCheckpointsTopic(topic), "" + policy.isInternalTopic(topic));
    }

    private static String begin() {
        store = new Store();
        store.start(false);
        return "begun";
    }

    private static String note(ConsumerRecord<byte[], byte[]> record) {
        store.handleRecord(record);
        return "noted";
    }

    private static String translate(long position) {
        var found = store.translateDownstream("g", PLACE, position);
        return found.isPresent() && found.getAsLong() >= 0 ? "" + found.getAsLong() : "unknown";
    }

    private static Map<String, Object> cluster(String servers) {
        return Map.of("bootstrap.servers", servers);
    }

    private static String offsets(String servers, String alias, String group) throws Exception {
        var found = RemoteClusterUtils.translateOffsets(cluster(servers), alias, group, Duration.ofSeconds(60));
        return found.entrySet().stream()
            .collect(Collectors.toMap(
                entry -> entry.getKey().toString(), entry -> entry.getValue().offset() + "/" + entry.getValue().metadata(),
                (one, other) -> other, TreeMap::new))
            .toString();
    }
}
