package deltactl.tests;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/**
 * Writes commits to S3 with If-None-Match.
 *
 * The log stores of Delta on Spark for S3 replace a commit that another program wrote meanwhile.
 */
public final class ConditionalLogStore extends HadoopFileSystemLogStore {
  private static final String IF_ABSENT = "fs.option.create.conditional.overwrite";

  public ConditionalLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void write(
      Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    try (FSDataOutputStream stream = open(path, overwrite, configuration)) {
      while (actions.hasNext()) {
        stream.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
      }
    } catch (IOException failure) {
      if (!overwrite && isPresent(failure)) {
        throw new FileAlreadyExistsException(path.toString());
      }
      throw failure;
    }
  }

  private static FSDataOutputStream open(Path path, boolean overwrite, Configuration configuration)
      throws IOException {
    var builder = path.getFileSystem(configuration).createFile(path).overwrite(true);
    if (!overwrite) {
      builder.must(IF_ABSENT, true);
    }
    return builder.build();
  }

  private static boolean isPresent(IOException failure) {
    return failure instanceof org.apache.hadoop.fs.FileAlreadyExistsException
        || String.valueOf(failure).contains("Status Code: 412");
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
    return false;
  }
}
