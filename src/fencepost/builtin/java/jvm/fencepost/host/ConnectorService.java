package fencepost.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkConnectorContext;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** A connector. */
final class ConnectorService implements Service {
    private final long session;
    private final JavaClass described;
    private final Events events;
    private final Connector connector;
    private final PluginFigures figures = new PluginFigures();
    private boolean isStarted;

    ConnectorService(long session, Request request, Loaders loaders, Events events) throws Exception {
        this.session = session;
        this.events = events;
        described = request.javaClass("class");
        Logs.setOwner(request.text("name"), request);
        connector = loaders.instance(described, Connector.class);
        Thread.currentThread().setContextClassLoader(loaders.of(described));
    }

    @Override
    public Map<String, Object> facts() {
        Object task = described.sibling(connector.taskClass().getName()).described();
        return Map.of("version", Questions.version(connector), "task_class", task);
    }

    @Override
    public Answer call(Request request) throws Exception {
        return switch (request.operation()) {
            case "start" -> start(request);
            case "task_configs" -> Answer.repeatable(
                    () -> Answer.of(taskConfigs((int) request.number("max_tasks", 1))));
            case "exactly_once_support" -> Answer.of(source().exactlyOnceSupport(request.properties("properties")));
            case "boundaries" -> Answer.of(source().canDefineTransactionBoundaries(request.properties("properties")));
            case "alter_source_offsets" -> Answer.of(
                    source().alterOffsets(request.properties("properties"), request.offsets("offsets")));
            case "alter_sink_offsets" -> Answer.of(
                    ((SinkConnector) connector).alterOffsets(request.properties("properties"), request.positions("offsets")));
            case "stop" -> stop();
            default -> throw new IllegalArgumentException("no such operation: " + request.operation());
        };
    }

    @Override
    public List<Object> figures() {
        return figures.rows();
    }

    private SourceConnector source() {
        return (SourceConnector) connector;
    }

    private Answer start(Request request) {
        connector.initialize(connector instanceof SourceConnector ? new SourceContext() : new SinkContext());
        isStarted = true;
        connector.start(request.properties("properties"));
        return Answer.NOTHING;
    }

    private List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> found = connector.taskConfigs(most);
        return found == null ? List.of() : new ArrayList<>(found);
    }

    private Answer stop() {
        isStarted = false;
        connector.stop();
        return Answer.NOTHING;
    }

    @Override
    public void end() {
        if (isStarted) {
            try {
                stop();
            } catch (Throwable error) {
                Logs.error(connector.getClass(), "stop() failed", error);
            }
        }
    }

    /** The context of a sink, and what a source's has in common with it. */
    private class SinkContext implements SinkConnectorContext {
        private final PluginMetrics metrics = figures.of(Map.of());

        @Override
        public void requestTaskReconfiguration() {
            events.tell(Map.of("event", "reconfigure", "session", session));
        }

        @Override
        public void raiseError(Exception error) {
            events.tell(Map.of("event", "error", "session", session, "error", Thrown.described(error)));
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return metrics;
        }
    }

    private final class SourceContext extends SinkContext implements SourceConnectorContext {
        @Override
        public OffsetStorageReader offsetStorageReader() {
            return new NewestOffsets();
        }
    }

    /** Reads what is committed now, as a connector may do at any time. */
    private final class NewestOffsets implements OffsetStorageReader {
        @Override
        public <T> Map<String, Object> offset(Map<String, T> partition) {
            return newest().offset(partition);
        }

        @Override
        public <T> Map<Map<String, T>, Map<String, Object>> offsets(java.util.Collection<Map<String, T>> partitions) {
            return newest().offsets(partitions);
        }

        private Offsets newest() {
            try {
                Object answer = events.ask(Map.of("event", "offsets", "session", session));
                return new Offsets(new Request(Map.of("offsets", answer), null).offsets("offsets"));
            } catch (Exception error) {
                throw new org.apache.kafka.connect.errors.ConnectException("the offsets could not be read", error);
            }
        }
    }
}
