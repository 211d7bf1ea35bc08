#include "shared/model/variable_set.h"

#include <algorithm>
#include <cmath>
#include <fnmatch.h>

#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "shared/job/field_output.h"

namespace downpour::model {
namespace {

constexpr const char* kByField = " by field: ";

}  // namespace

VariableSpec VariableSet::make_variable(const std::string& name, TableKind kind,
                                        InitSpec init) const {
  VariableSpec variable;
  variable.name = name;
  variable.init = init;
  // The ps apply the mean of the changes of replicas that train alone.
  variable.optimizer = job_.train.sync_every ? job_.train.outer : optimizer_of(name, kind);
  variable.optimizer.ema = job_.ema;
  return variable;
}

/// Returns the optimizer that the job gives a variable.
OptimizerSpec VariableSet::optimizer_of(const std::string& name, TableKind kind) const {
  OptimizerSpec optimizer = job_.optimizer;
  for (const OptimizerRule& rule : job_.optimizer_rules) {
    if (fnmatch(rule.variables.c_str(), name.c_str(), 0) != 0) continue;
    optimizer = rule.optimizer;
    if (!optimizer.schedule.given()) optimizer.schedule = job_.optimizer.schedule;
    break;
  }
  if (kind == TableKind::kDense)
    optimizer.type = info_of(optimizer.type).dense_type.value_or(optimizer.type);
  return optimizer;
}

bool VariableSet::has_numbered_keys(const std::string& field) const {
  const FieldSpec* const spec = job_.data.find_field(field);
  return spec != nullptr && numbers_keys(*spec);
}

uint32_t VariableSet::add_rows(std::vector<std::string> fields, const std::string& name,
                               uint32_t dim, InitSpec init, bool by_field) {
  std::sort(fields.begin(), fields.end());
  const bool salted = by_field && fields.size() > 1 &&
                      std::ranges::any_of(fields, [&](auto& f) { return has_numbered_keys(f); });
  RowFields rows{std::move(fields), salted};
  const auto table = size_t(std::ranges::find(row_fields_, rows) - row_fields_.begin());
  if (table == row_fields_.size()) {
    row_fields_.push_back(std::move(rows));
    // The name tells checkpoints whose keys are made in another way.
    row_tables_.push_back({salted ? name + kByField : name, TableKind::kEmbedding, {}});
  } else {
    row_tables_[table].name += "+" + name;
  }
  VariableSpec variable = make_variable(name, TableKind::kEmbedding, init);
  variable.dim = dim;
  std::vector<VariableSpec>& table_variables = row_tables_[table].table_variables;
  declared_.push_back({uint32_t(table), false, uint32_t(table_variables.size())});
  table_variables.push_back(std::move(variable));
  return uint32_t(declared_.size() - 1);
}

uint32_t VariableSet::add_dense(const std::string& name, std::vector<uint32_t> shape,
                                InitSpec init) {
  VariableSpec variable = make_variable(name, TableKind::kDense, init);
  variable.shape = std::move(shape);
  declared_.push_back({uint32_t(dense_tables_.size()), true, 0});
  dense_tables_.push_back({name, TableKind::kDense, {std::move(variable)}});
  return uint32_t(declared_.size() - 1);
}

/// A matrix starts like the kernel of a layer (Glorot and Bengio 2010), anything else with 0.
static InitSpec dense_init(const std::vector<uint32_t>& shape) {
  if (shape.size() != 2) return {};
  return {InitType::kUniform, float(std::sqrt(6.0 / (double(shape[0]) + shape[1])))};
}

Result<void> VariableSet::declare_custom() {
  for (size_t i = 0; i < job_.model.variables.size(); ++i) {
    const ModelVariable& variable = job_.model.variables[i];
    if (variable.shape.empty()) {
      const uint32_t handle =
          add_rows(variable.fields, variable.name, variable.dim, variable.init.value_or(kRowInit));
      for (const std::string& field : variable.fields) bag(field, handle);
      continue;
    }
    uint64_t floats = 1;
    for (const uint32_t d : variable.shape) {
      if (floats <= kDenseFloatsMax) floats *= d;  // both are below 2^32
    }
    if (floats > kDenseFloatsMax) {
      return Error{ErrorCode::kConfig,
                   str("variable `", variable.name, "` has more than ", kDenseFloatsMax, " floats"),
                   str("model.variables[", i, "].shape"), "divide it into several variables"};
    }
    add_dense(variable.name, variable.shape, variable.init.value_or(dense_init(variable.shape)));
  }
  return {};
}

Result<void> VariableSet::check_rules() const {
  std::string names;
  for (const auto* tables : {&row_tables_, &dense_tables_}) {
    for (const TableSpec& table : *tables)
      for (const VariableSpec& variable : table.table_variables)
        names += str(names.empty() ? "" : ", ", variable.name);
  }
  for (size_t i = 0; i < job_.optimizer_rules.size(); ++i) {
    const std::string& glob = job_.optimizer_rules[i].variables;
    const auto matches = [&](const TableSpec& table) {
      return std::ranges::any_of(table.table_variables, [&](const VariableSpec& variable) {
        return fnmatch(glob.c_str(), variable.name.c_str(), 0) == 0;
      });
    };
    if (std::ranges::any_of(row_tables_, matches) || std::ranges::any_of(dense_tables_, matches))
      continue;
    return Error{ErrorCode::kConfig, str("no variable matches `", glob, "`"),
                 str("optimizer.rules[", i, "].variables"), str("the variables are ", names)};
  }
  return {};
}

uint32_t VariableSet::bag(const std::string& field, uint32_t handle) {
  constexpr uint64_t kSeed = 0x6669656c64;
  const uint32_t table = declared_[handle].table;
  const bool salted = row_fields_[table].salted && has_numbered_keys(field);
  const BagInput bag{field, table, salted ? hash_string(field, kSeed) : 0};
  const auto found = std::find(bags_.begin(), bags_.end(), bag);
  if (found != bags_.end()) return uint32_t(found - bags_.begin());
  bags_.push_back(bag);
  return uint32_t(bags_.size() - 1);
}

void VariableSet::finish(Program& program) const {
  program.layout.bags = bags_;
  program.tables = row_tables_;
  for (uint32_t t = 0; t < row_tables_.size(); ++t) program.layout.tables.push_back(TableId{t});
  program.tables.insert(program.tables.end(), dense_tables_.begin(), dense_tables_.end());

  std::vector<uint32_t> first_of_table;
  for (uint32_t t = 0; t < program.tables.size(); ++t) {
    first_of_table.push_back(uint32_t(program.variables.size()));
    const bool dense = program.tables[t].kind == TableKind::kDense;
    for (const VariableSpec& table_variable : program.tables[t].table_variables) {
      const uint64_t floats = dense ? table_variable.elements() : table_variable.dim;
      program.variables.push_back({t, dense, floats, dense ? program.dense_floats : 0});
      if (dense) program.dense_floats += floats;
    }
  }
  if (job_.train.sync_every) {
    program.local = {.batch_size = job_.train.batch_size,
                     .steps = uint32_t(job_.train.round_batches()),
                     .whole_epochs = job_.train.whole_epochs(),
                     .optimizers = {}};
    for (const TableSpec& table : program.tables) {
      for (const VariableSpec& variable : table.table_variables)
        program.local->optimizers.push_back(optimizer_of(variable.name, table.kind));
    }
  }
  if (traits_of(job_.train.mode).has_groups) {
    for (TableSpec& table : program.tables)
      table.group = table.kind == TableKind::kEmbedding ? RowGroup::kAsync : RowGroup::kSync;
    program.async_mean = job_.train.reduction == "mean";
    program.async_clip = job_.clip.value;
  }
  const auto place = [&](uint32_t& handle) {
    if (handle == kNoIndex) return;
    const Declared& d = declared_[handle];
    handle = first_of_table[d.table + (d.dense ? row_tables_.size() : 0)] + d.table_variable;
  };
  for (Op& op : program.ops) {
    if (auto* pool = std::get_if<PoolOp>(&op)) {
      for (BagUse& use : pool->bags) place(use.variable);
      place(pool->bias);
    } else if (auto* fm = std::get_if<FmOp>(&op)) {
      for (BagUse& use : fm->bags) place(use.variable);
    } else if (auto* dense = std::get_if<DenseOp>(&op)) {
      place(dense->kernel);
      place(dense->bias);
    } else if (auto* norm = std::get_if<NormOp>(&op)) {
      place(norm->scale);
      place(norm->shift);
    }
  }
}

}  // namespace downpour::model
