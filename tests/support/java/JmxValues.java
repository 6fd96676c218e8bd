import java.rmi.UnmarshalException;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints the attributes of Kafka Connect's beans, one a line, as often as a line is read: bean, attribute and value. */
public final class JmxValues {
    private JmxValues() {
    }

    public static void main(String[] arguments) throws Exception {
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            while (System.in.read() == '\n') {
                for (ObjectName bean : new TreeSet<>(server.queryNames(new ObjectName("kafka.connect:*"), null))) {
                    print(server, bean);
                }
                System.out.println();
            }
        }
    }

    private static void print(MBeanServerConnection server, ObjectName bean) throws Exception {
        for (MBeanAttributeInfo each : server.getMBeanInfo(bean).getAttributes()) {
            try {
                System.out.println(bean.getKeyPropertyListString() + "\t" + each.getName() + "\t"
                    + server.getAttribute(bean, each.getName()));
            } catch (UnmarshalException unknown) {
                continue; // a value of a class that only Kafka Connect has, and which is no number
            }
        }
    }
}
