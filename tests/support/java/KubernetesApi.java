import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;

/**
 * The API of Kubernetes, which keeps what it is given and runs nothing. Its port is in the file
 * `port`. It ends with its input.
 */
class KubernetesApi {
    public static void main(String[] none) throws Exception {
        var keeps = new KubernetesCrudDispatcher();
        var server = new KubernetesMockServer(new Context(), new MockWebServer(), new HashMap<>(), keeps, false);
        server.init(InetAddress.getLoopbackAddress(), 0);
        Files.writeString(Path.of("fresh"), "" + server.getPort());
        Files.move(Path.of("fresh"), Path.of("port"));
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
