package io.unitycatalog.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A Unity Catalog for Delta on Spark, whose own jars have the client.
 *
 * Delta asks the server itself when its catalog has this name, and delegates to a catalog of this
 * package: one that has every namespace, and no table.
 */
public final class UCSingleCatalog extends DeltaCatalog {
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    super.initialize(name, options);
    setDelegateCatalog(new Empty(name));
  }

  /** Has every namespace, and no table. */
  public static final class Empty implements TableCatalog, SupportsNamespaces {
    private final String name;

    Empty(String name) {
      this.name = name;
    }

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {}

    @Override
    public String name() {
      return name;
    }

    @Override
    public boolean namespaceExists(String[] namespace) {
      return true;
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] namespace) {
      return Map.of();
    }

    @Override
    public String[][] listNamespaces() {
      return new String[0][];
    }

    @Override
    public String[][] listNamespaces(String[] namespace) {
      return new String[0][];
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
      return new Identifier[0];
    }

    @Override
    public Table loadTable(Identifier table) throws NoSuchTableException {
      throw new NoSuchTableException(table);
    }

    @Override
    public void createNamespace(String[] namespace, Map<String, String> properties) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange... changes) {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Table alterTable(Identifier table, TableChange... changes) {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean dropTable(Identifier table) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
      throw new UnsupportedOperationException();
    }
  }
}
