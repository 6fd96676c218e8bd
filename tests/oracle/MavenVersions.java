import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.maven.artifact.versioning.ComparableVersion;
import org.apache.maven.artifact.versioning.DefaultArtifactVersion;
import org.apache.maven.artifact.versioning.VersionRange;

/** Compares versions as Maven does: each line is two versions, or a range and a version, separated by a tab. */
public class MavenVersions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] pair = line.split("\t", -1);
            System.out.println(pair[0].startsWith("[") || pair[0].startsWith("(") ? contains(pair) : compare(pair));
        }
    }

    private static int compare(String[] pair) {
        return Integer.signum(new ComparableVersion(pair[0]).compareTo(new ComparableVersion(pair[1])));
    }

    private static String contains(String[] pair) {
        try {
            VersionRange range = VersionRange.createFromVersionSpec(pair[0]);
            return String.valueOf(range.containsVersion(new DefaultArtifactVersion(pair[1])));
        } catch (Exception error) {
            return error.getMessage();
        }
    }
}
