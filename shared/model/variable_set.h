// VariableSet: gathers the variables that layers declare and groups them into tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/model/program.h"

namespace downpour::model {

/// Variables are declared in the order of layers and known by a handle until finish() gives them
/// their place.
class VariableSet final {
 public:
  explicit VariableSet(const Job& job) : job_(job) {}

  /// Rows of `dim` floats under the keys of `fields`. Variables over the same set of fields share a
  /// table.
  uint32_t add_rows(std::vector<std::string> fields, const std::string& name, uint32_t dim,
                    InitSpec init);
  uint32_t add_dense(const std::string& name, std::vector<uint32_t> shape, InitSpec init);
  /// The batch's column of a field's keys as indices into the table of row variable `handle`.
  uint32_t bag(const std::string& field, uint32_t handle);

  /// Fills the program's tables, variables and the bags and tables of its layout, and turns the
  /// handles in its operations into flat indices.
  void finish(Program& program) const;

 private:
  struct Declared {
    uint32_t table = 0;  // into row_tables_ or dense_tables_
    bool dense = false;
    uint32_t table_variable = 0;
  };
  VariableSpec make_variable(const std::string& name, InitSpec init) const;

  const Job& job_;
  std::vector<Declared> declared_;
  std::vector<TableSpec> row_tables_;
  std::vector<std::vector<std::string>> row_fields_;  // sorted, beside row_tables_
  std::vector<TableSpec> dense_tables_;
  std::vector<BagInput> bags_;
};

}  // namespace downpour::model
