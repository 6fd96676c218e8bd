package fencepost.host;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;

/** A task with its transforms and converters, from its start to its stop. */
abstract class TaskService<T extends Task, R extends ConnectRecord<R>> implements Service {
    final T task;
    final Map<String, String> config;
    final Conversion<R> conversion;
    private boolean isStopped;

    /** Create the task; "start" is still to come. */
    TaskService(Request request, Loaders loaders, Class<T> kind) throws Exception {
        JavaClass described = request.javaClass("class");
        config = request.properties("task_config");
        Logs.setOwner(request.text("connector") + "-" + request.number("task", 0), request);
        Thread.currentThread().setContextClassLoader(loaders.of(described));
        task = loaders.instance(described, kind);
        conversion = new Conversion<>(
                new Plugins(request.properties("connector_config"), request.classes(), described, loaders));
    }

    /** Give the task its context. */
    abstract void initialize();

    /** Start the task; one that cannot start is stopped. */
    final void start() {
        try {
            initialize();
            task.start(config);
        } catch (Throwable error) {
            end();
            throw error;
        }
    }

    /** What follows the task's stop, while its converters are open. */
    void afterStop() {
    }

    @Override
    public final List<Object> figures() {
        return conversion.figures().rows();
    }

    final Answer stop() {
        end();
        return Answer.NOTHING;
    }

    @Override
    public final void end() {
        if (isStopped) {
            return;
        }
        isStopped = true;
        try {
            task.stop();
        } catch (Throwable error) {
            Logs.error(task.getClass(), "stop() failed", error);
        }
        afterStop();
        conversion.close();
    }
}
