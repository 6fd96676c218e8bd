import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A resource manager and one node manager of YARN, in this process and in the directory that it is started in.
 *
 * Its arguments are properties, as NAME=VALUE. It writes `conf/yarn-site.xml` once all runs, and ends with its input.
 */
class YarnCluster {
    public static void main(String[] properties) throws Exception {
        var conf = new YarnConfiguration();
        for (var property : properties) {
            var parts = property.split("=", 2);
            conf.set(parts[0], parts[1]);
        }
        var cluster = new MiniYARNCluster("yarn", 1, 1, 1);
        cluster.init(conf);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(Long.MAX_VALUE)) {
            throw new IllegalStateException("the node manager has not connected");
        }
        while (cluster.getConfig().get(YarnConfiguration.RM_ADDRESS).endsWith(":0")) {
            Thread.sleep(100); // the address is set some time after the start
        }
        var file = Files.createDirectories(Path.of("conf")).resolve("yarn-site.xml");
        try (var out = Files.newOutputStream(Path.of("fresh.xml"))) {
            cluster.getConfig().writeXml(out);
        }
        Files.move(Path.of("fresh.xml"), file);
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
