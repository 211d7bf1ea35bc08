// VariableSet: collects the variables that layers declare and groups them into tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/program.h"

namespace downpour::model {

constexpr uint64_t kDenseFloatsMax = 1U << 28;  // of one dense variable: 1 GiB
/// The default of embedding rows.
constexpr InitSpec kRowInit{InitType::kUniform, 0.05F};

/// The variables of a model, declared in the order of the layers. A variable is identified by a
/// handle until finish() assigns its index.
class VariableSet final {
 public:
  explicit VariableSet(const Job& job) : job_(job) {}

  /// Declares an embedding variable: rows of `dim` floats under the keys of `fields`. Variables
  /// with the same set of fields share a table. `by_field`: equal keys of two fields have two rows.
  /// Returns the handle.
  uint32_t add_rows(std::vector<std::string> fields, const std::string& name, uint32_t dim,
                    InitSpec init, bool by_field = false);
  uint32_t add_dense(const std::string& name, std::vector<uint32_t> shape, InitSpec init);
  /// Declares the variables of a model without layers. Errors: kConfig names the variable.
  Result<void> declare_custom();
  /// Checks that each rule of the job's optimizers applies to a variable. Error: kConfig.
  Result<void> check_rules() const;
  /// Returns the index of the batch's bag column for `field`, whose keys index the table of
  /// variable `handle`.
  uint32_t bag(const std::string& field, uint32_t handle);

  /// Fills the program's tables and variables, and the bags and tables of its layout. Replaces the
  /// handles in its operations by flat indices.
  void finish(Program& program) const;

 private:
  struct Declared {
    uint32_t table = 0;  // index into row_tables_ or dense_tables_
    bool dense = false;
    uint32_t table_variable = 0;
  };
  struct RowFields {
    std::vector<std::string> names;  // sorted
    bool salted = false;             // some keys are made different from those of other fields
    bool operator==(const RowFields&) const = default;
  };
  bool has_numbered_keys(const std::string& field) const;
  VariableSpec make_variable(const std::string& name, TableKind kind, InitSpec init) const;
  OptimizerSpec optimizer_of(const std::string& name, TableKind kind) const;

  const Job& job_;
  std::vector<Declared> declared_;
  std::vector<TableSpec> row_tables_;
  std::vector<RowFields> row_fields_;  // of each row table
  std::vector<TableSpec> dense_tables_;
  std::vector<BagInput> bags_;
};

}  // namespace downpour::model
