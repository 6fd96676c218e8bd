import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/**
 * Copies records as Kafka Streams does, exactly_once_v2: the values are texts that begin with their partition and a colon.
 *
 * Says "ready" once it runs. In the transaction that holds a record with "hold" in it, of partition p, it says
 * "at <point> <p>" at the point of that number, and waits for "go". A refusal ends it, and then it says "ended".
 */
class StreamsCopy {
    static final CountDownLatch GO = new CountDownLatch(1);
    static final Map<Thread, Integer> MARKED = new ConcurrentHashMap<>();
    static String[] points;

    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("num.stream.threads", arguments[5]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "1");
        settings.put("commit.interval.ms", "100");
        settings.put("producer.linger.ms", "0");
        settings.put("default.key.serde", Serdes.ByteArraySerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        points = arguments[6].split(",");
        var builder = new StreamsBuilder();
        builder.<byte[], String>stream(arguments[2])
            .process(Gate::new)
            .to(arguments[3]);
        try (var streams = new KafkaStreams(builder.build(), settings, new Held())) {
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) {
                    System.out.println("ready");
                } else if (now.hasCompletedShutdown()) {
                    System.out.println("ended");
                }
            });
            streams.setUncaughtExceptionHandler(error -> {
                System.out.println("refused " + error.getMessage());
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            var lines = new Scanner(System.in);
            while (lines.hasNextLine()) {
                if (lines.nextLine().equals("go")) {
                    GO.countDown();
                }
            }
        }
    }

    static int partition(String value) {
        return Integer.parseInt(value.substring(0, value.indexOf(':')));
    }

    static void at(String point) {
        var partition = MARKED.get(Thread.currentThread());
        if (partition != null && points[partition % points.length].equals(point)) {
            System.out.println("at " + point + " " + partition);
            try {
                GO.await();
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    static class Gate extends ContextualProcessor<byte[], String, byte[], String> {
        @Override
        public void process(Record<byte[], String> record) {
            if (record.value().contains("hold")) {
                MARKED.put(Thread.currentThread(), partition(record.value()));
            }
            at("begun");
            context().forward(record);
            at("produced");
        }
    }

    static class Held extends DefaultKafkaClientSupplier {
        @Override
        public Producer<byte[], byte[]> getProducer(Map<String, Object> config) {
            return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer()) {
                @Override
                public void sendOffsetsToTransaction(Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group) {
                    super.sendOffsetsToTransaction(offsets, group);
                    at("offsets");
                }

                @Override
                public void commitTransaction() {
                    at("end");
                    super.commitTransaction();
                    MARKED.remove(Thread.currentThread());
                }
            };
        }
    }
}
