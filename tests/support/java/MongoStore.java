import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;

/** A server of MongoDB's protocol, in memory. Prints its port; each line "DATABASE COLLECTION" is answered with JSON. */
public final class MongoStore {
    public static void main(String[] arguments) throws Exception {
        MongoServer server = new MongoServer(new MemoryBackend());
        InetSocketAddress address = server.bind();
        System.out.println(address.getPort());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (MongoClient client = MongoClients.create("mongodb://127.0.0.1:" + address.getPort())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                StringBuilder found = new StringBuilder();
                client.getDatabase(words[0]).getCollection(words[1]).find()
                        .forEach(each -> found.append(found.length() > 0 ? "," : "").append(each.toJson()));
                System.out.println("[" + found + "]");
            }
        }
        server.shutdownNow();
    }
}
