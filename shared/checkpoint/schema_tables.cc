#include "shared/checkpoint/schema_tables.h"

#include <capnp/dynamic.h>
#include <cctype>
#include <string_view>
#include <utility>
#include <variant>

namespace downpour::checkpoint {
namespace {

// A new value of an enum does not compile without a case here.
bool is_known(InitType type) {
  switch (type) {
    case InitType::kZero:
    case InitType::kUniform:
    case InitType::kNormal:
      return true;
  }
  return false;
}
bool is_known(TableKind kind) {
  switch (kind) {
    case TableKind::kEmbedding:
    case TableKind::kDense:
      return true;
  }
  return false;
}
/// The decay of stored averages, for tables that are read from a checkpoint. It only says that
/// there are averages: a run uses the decay of its job.
constexpr float kStoredEma = 0.5F;

bool is_known(OptimizerType type) { return size_t(type) < kOptimizers.size(); }

template <typename Enum>
Result<Enum> enum_of(uint8_t value, const char* what) {
  if (!is_known(Enum(value))) {
    return Error{ErrorCode::kUnsupported, str(what, " ", int(value), " is unknown to this build")};
  }
  return Enum(value);
}

/// Returns the name of a setting in the schema: "learningRate" for "learning_rate".
std::string schema_name(std::string_view key) {
  std::string name;
  for (size_t i = 0; i < key.size(); ++i) {
    name += key[i] == '_' && i + 1 < key.size() ? char(std::toupper(key[++i])) : key[i];
  }
  return name;
}

// The settings of all types, because a spec has them whatever its type is. A setting without a
// field in the schema ends the first encoding of a table with an exception.

void write_settings(const OptimizerSpec& spec, schema::Optimizer::Builder out) {
  capnp::DynamicStruct::Builder fields = out;
  for (const OptimizerInfo& info : kOptimizers) {
    for (const OptimizerSetting& setting : info.settings) {
      std::visit([&](auto member) { fields.set(schema_name(setting.key).c_str(), spec.*member); },
                 setting.member);
    }
  }
}

void read_settings(schema::Optimizer::Reader in, OptimizerSpec& spec) {
  const capnp::DynamicStruct::Reader fields = in;
  for (const OptimizerInfo& info : kOptimizers) {
    for (const OptimizerSetting& setting : info.settings) {
      std::visit(
          [&]<typename T>(T OptimizerSpec::*member) {
            spec.*member = fields.get(schema_name(setting.key).c_str()).template as<T>();
          },
          setting.member);
    }
  }
}

void write_variable(const VariableSpec& variable, schema::Variable::Builder out) {
  out.setName(text(variable.name));
  out.setDim(variable.dim);
  auto shape = out.initShape(unsigned(variable.shape.size()));
  for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, variable.shape[i]);
  auto init = out.initInit();
  init.setType(uint8_t(variable.init.type));
  init.setScale(variable.init.scale);
  const OptimizerSpec& spec = variable.optimizer;
  auto optimizer = out.initOptimizer();
  optimizer.setType(uint8_t(spec.type));
  optimizer.setLearningRate(spec.learning_rate);
  optimizer.setAveraged(spec.averages());
  write_settings(spec, optimizer);
}

Result<VariableSpec> read_variable(schema::Variable::Reader in) {
  VariableSpec variable;
  variable.name = text_of(in.getName());
  variable.dim = in.getDim();
  for (const uint32_t d : in.getShape()) variable.shape.push_back(d);
  const auto init = in.getInit();
  DP_TRY(variable.init.type, enum_of<InitType>(init.getType(), "initializer"));
  variable.init.scale = init.getScale();
  const auto optimizer = in.getOptimizer();
  OptimizerSpec& spec = variable.optimizer;
  DP_TRY(spec.type, enum_of<OptimizerType>(optimizer.getType(), "optimizer"));
  spec.learning_rate = optimizer.getLearningRate();
  spec.ema = optimizer.getAveraged() ? kStoredEma : 0.0F;
  read_settings(optimizer, spec);
  return variable;
}

}  // namespace

void write_table(const TableSpec& table, schema::Table::Builder out) {
  out.setName(text(table.name));
  out.setKind(uint8_t(table.kind));
  auto members = out.initMembers(unsigned(table.table_variables.size()));
  for (unsigned m = 0; m < members.size(); ++m)
    write_variable(table.table_variables[m], members[m]);
}

Result<TableSpec> read_table(schema::Table::Reader in) {
  TableSpec table;
  table.name = text_of(in.getName());
  DP_TRY(table.kind, enum_of<TableKind>(in.getKind(), "table kind"));
  for (const auto member : in.getMembers()) {
    DP_TRY(VariableSpec variable, read_variable(member));
    table.table_variables.push_back(std::move(variable));
  }
  return table;
}

}  // namespace downpour::checkpoint
