#include "tools/export/onnx_graph.h"

#include <algorithm>
#include <array>
#include <variant>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/model/losses.h"

namespace downpour::tools {
namespace {

using Json = nlohmann::ordered_json;
using Type = OnnxAttribute::Type;

OnnxAttribute integer(const char* name, int64_t value) {
  return {.name = name, .type = Type::kInt, .integers = {value}};
}
OnnxAttribute number(const char* name, float value) {
  return {.name = name, .type = Type::kFloat, .number = value};
}

/// Axis 1: the columns of a record.
OnnxAttribute columns() { return integer("axis", 1); }

}  // namespace

OnnxGraph::OnnxGraph(const model::Program& program, OnnxFile& file,
                     std::function<Result<std::vector<float>>(size_t)> weights)
    : program_(program), file_(file), read_weights_(std::move(weights)) {
  for (size_t t = 0; t < program.tables.size(); ++t) {
    for (size_t m = 0; m < program.tables[t].table_variables.size(); ++m) places_.push_back({t, m});
  }
  inputs_ = outputs_ = Json::array();
}

const VariableSpec& OnnxGraph::spec_of(uint32_t variable) const {
  const auto [table, m] = places_.at(variable);
  return program_.tables[table].table_variables[m];
}

Result<void> OnnxGraph::build(const Job& job) {
  add_numbers();
  add_rows();
  for (const OutputSpec& output : program_.output_specs)
    outputs_.push_back({{"name", file_.name(output.name)},
                        {"raw", file_.name(output.name + "/raw")},
                        {"loss", output.loss}});
  DP_TRY_VOID(load_weights());
  for (const model::Op& op : program_.ops)
    std::visit([this](const auto& operation) { add(operation); }, op);
  for (size_t o = 0; o < program_.outputs.size(); ++o) {
    const OutputSpec& spec = program_.output_specs[o];
    const FieldSpec* const target = job.data.find_field(spec.target);
    outputs_[o]["classes"] = target == nullptr ? std::vector<std::string>() : target->classes;
    add_output(o);
  }
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  file_.add_metadata("downpour.inputs", text(inputs_));
  file_.add_metadata("downpour.outputs", text(outputs_));
  return {};
}

std::vector<ArraySpec> OnnxGraph::signature() const {
  std::vector<ArraySpec> arrays;
  for (const Json& input : inputs_)
    arrays.push_back({.name = input["name"], .shape = {0, input["width"].get<uint64_t>()}});
  for (const Json& output : outputs_) {
    for (const char* const name : {"name", "raw"})
      arrays.push_back({.name = output[name], .shape = {0, output["width"].get<uint64_t>()}});
  }
  return arrays;
}

Result<void> OnnxGraph::load_weights() {
  for (uint32_t v = 0; v < program_.variables.size(); ++v) {
    if (!program_.variables[v].dense) continue;
    const VariableSpec& spec = spec_of(v);
    DP_TRY(std::vector<float> weights, read_weights_(places_[v].first));
    // The model stores the difference of the scale of a normalization from 1.
    const bool is_scale = std::ranges::any_of(program_.ops, [&](const model::Op& op) {
      const auto* const norm = std::get_if<model::NormOp>(&op);
      return norm != nullptr && norm->scale == v;
    });
    if (is_scale) {
      for (float& weight : weights) weight += 1.0F;
    }
    weights_[v] = file_.add_floats(spec.name, {spec.shape.begin(), spec.shape.end()}, weights);
  }
  return {};
}

void OnnxGraph::add_numbers() {
  for (model::ValueId v = 0; v < program_.values.size(); ++v) {
    const model::Value& value = program_.values[v];
    if (value.float_index == model::kNoIndex) continue;
    const std::string& field = program_.layout.floats[value.float_index].field;
    const std::string name = values_[v] = file_.name(field);
    file_.add_input(name, value.width, str("the numbers of `", field, "` after its transforms"));
    inputs_.push_back(
        {{"name", name}, {"kind", "numbers"}, {"field", field}, {"width", value.width}});
  }
}

std::string OnnxGraph::rows(const model::BagUse& bag, Pool pool, uint32_t dim) {
  const auto found = rows_.find({bag.variable, bag.bag, pool});
  if (found != rows_.end()) return found->second;
  const std::string& field = program_.layout.bags[bag.bag].field;
  const std::string& variable = spec_of(bag.variable).name;
  static constexpr std::array<const char*, 3> kNames{"sum", "mean", "squares"};
  const char* const kind = kNames[size_t(pool)];
  const std::string name = rows_[{bag.variable, bag.bag, pool}] =
      file_.name(str(variable, ":", field, ":", kind));
  file_.add_input(name, dim, str("the rows of ", variable, " for the keys of `", field, "`"));
  inputs_.push_back({{"name", name},
                     {"kind", "rows"},
                     {"field", field},
                     {"array", variable},
                     {"salt", program_.layout.bags[bag.bag].salt},
                     {"pool", kind},
                     {"width", dim}});
  return name;
}

void OnnxGraph::add_rows() {
  for (const model::Op& op : program_.ops) {
    if (const auto* const pool = std::get_if<model::PoolOp>(&op)) {
      for (const model::BagUse& bag : pool->bags)
        rows(bag, pool->mean ? Pool::kMean : Pool::kSum, pool->dim);
    } else if (const auto* const fm = std::get_if<model::FmOp>(&op)) {
      for (const model::BagUse& bag : fm->bags) {
        rows(bag, Pool::kSum, fm->dim);
        rows(bag, Pool::kSquares, fm->dim);
      }
    }
  }
}

// Concatenates the value when it is first read. The program has an operation for that only if
// memory must be copied.
std::string OnnxGraph::value(ValueId id) {
  if (const auto found = values_.find(id); found != values_.end()) return found->second;
  const std::vector<model::Part>& parts = program_.concatenated[id];
  DP_CHECK(!parts.empty(), id);  // an operation that comes later
  std::vector<std::string> names;
  for (const model::Part& part : parts) names.push_back(value(part.value));
  return values_[id] = file_.add_node("Concat", names, {columns()});
}

std::string OnnxGraph::constant(float number) {
  std::string& name = constants_[number];
  if (name.empty()) name = file_.add_floats(str("/constant/", number), {}, {&number, 1});
  return name;
}

std::string OnnxGraph::sum(const std::vector<std::string>& terms) {
  return terms.size() == 1 ? terms[0] : file_.add_node("Sum", terms);
}

void OnnxGraph::add(const model::PoolOp& op) {
  std::vector<std::string> parts;
  for (const model::BagUse& bag : op.bags)
    parts.push_back(rows(bag, op.mean ? Pool::kMean : Pool::kSum, op.dim));
  if (op.concat) {
    values_[op.output] =
        parts.size() == 1 ? parts[0] : file_.add_node("Concat", parts, {columns()});
    return;
  }
  if (op.accumulate) parts.push_back(values_.at(op.output));
  if (op.bias != model::kNoIndex) parts.push_back(weights_.at(op.bias));
  values_[op.output] = sum(parts);
}

/// All pairs: half of the square of the sum, without the squares.
void OnnxGraph::add(const model::FmOp& op) {
  std::vector<std::string> sums, squares;
  for (const model::BagUse& bag : op.bags) {
    sums.push_back(rows(bag, Pool::kSum, op.dim));
    squares.push_back(rows(bag, Pool::kSquares, op.dim));
  }
  const std::string total = sum(sums);
  const std::string twice =
      file_.add_node("Sub", {file_.add_node("Mul", {total, total}), sum(squares)});
  const std::string pairs = file_.add_node("Mul", {twice, constant(0.5F)});
  values_[op.output] = op.by_column ? pairs : sum_of_columns(pairs);
}

std::string OnnxGraph::sum_of_columns(const std::string& x) {
  static constexpr std::array<int64_t, 1> kAxes{1};
  return file_.add_node("ReduceSum", {x, file_.add_integers("/axes", kAxes)},
                        {integer("keepdims", 1)});
}

void OnnxGraph::add(const model::DenseOp& op) {
  std::vector<std::string> inputs{value(op.input), weights_.at(op.kernel)};
  if (op.bias != model::kNoIndex) inputs.push_back(weights_.at(op.bias));
  values_[op.output] = activated(file_.add_node("Gemm", inputs), op.activation);
}

std::string OnnxGraph::activated(const std::string& x, model::Activation activation) {
  const auto product = [&](const std::string& a, const std::string& b) {
    return file_.add_node("Mul", {a, b});
  };
  switch (activation) {
    case model::Activation::kNone:
      return x;
    case model::Activation::kRelu:
      return file_.add_node("Relu", {x});
    case model::Activation::kSigmoid:
      return file_.add_node("Sigmoid", {x});
    case model::Activation::kTanh:
      return file_.add_node("Tanh", {x});
    case model::Activation::kLeakyRelu:
      return file_.add_node("LeakyRelu", {x}, {number("alpha", 0.01F)});
    case model::Activation::kSilu:
      return product(x, file_.add_node("Sigmoid", {x}));
    case model::Activation::kGelu: {  // x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))
      constexpr float kLinear = 2 * 0.7978845608028654F;
      const std::string cubic = product(product(x, x), constant(kLinear * 0.044715F));
      const std::string slope = file_.add_node("Add", {cubic, constant(kLinear)});
      return product(x, file_.add_node("Sigmoid", {product(x, slope)}));
    }
  }
  return x;
}

void OnnxGraph::add(const model::ActivationOp& op) {
  values_[op.output] = activated(value(op.input), op.activation);
}

/// Only training drops elements.
void OnnxGraph::add(const model::DropoutOp& op) { values_[op.output] = value(op.input); }

/// Multiplies the vectors of a record with each other, and takes the pairs below the diagonal.
void OnnxGraph::add(const model::DotOp& op) {
  const int64_t vectors = program_.values[op.input].width / op.dim;
  const auto reshaped = [&](const std::string& x, std::span<const int64_t> shape) {
    return file_.add_node("Reshape", {x, file_.add_integers("/shape", shape)});
  };
  const std::string rows =
      reshaped(value(op.input), std::array<int64_t, 3>{-1, vectors, int64_t{op.dim}});
  const std::string turned = file_.add_node(
      "Transpose", {rows}, {{.name = "perm", .type = Type::kInts, .integers = {0, 2, 1}}});
  const std::string all = reshaped(file_.add_node("MatMul", {rows, turned}),
                                   std::array<int64_t, 2>{-1, vectors * vectors});
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < vectors; ++i) {
    for (int64_t j = 0; j < i; ++j) pairs.push_back(i * vectors + j);
  }
  values_[op.output] =
      file_.add_node("Gather", {all, file_.add_integers("/pairs", pairs)}, {columns()});
}

void OnnxGraph::add(const model::NormOp& op) {
  values_[op.output] = file_.add_node(
      "LayerNormalization", {value(op.input), weights_.at(op.scale), weights_.at(op.shift)},
      {integer("axis", -1), number("epsilon", 1e-5F)});
}

void OnnxGraph::add(const model::AddOp& op) {
  std::vector<std::string> terms;
  for (const model::Part& part : op.parts) terms.push_back(value(part.value));
  values_[op.output] = sum(terms);
}

/// value() adds the node when an operation reads it.
void OnnxGraph::add(const model::ConcatOp& op) { (void)op; }

void OnnxGraph::add(const model::SumOp& op) {
  values_[op.output] = sum_of_columns(value(op.parts.at(0).value));
}

void OnnxGraph::add(const model::PiecewiseOp& op) {
  std::vector<float> bins;
  for (uint32_t t = 0; t < op.bins; ++t) bins.push_back(float(t));
  const std::string starts = file_.add_floats("/bins", {1, 1, int64_t{op.bins}}, bins);
  std::vector<std::string> parts;
  for (const model::Part& part : op.parts) {
    const int64_t width = program_.values[part.value].width;
    const std::array<int64_t, 3> apart{-1, width, 1};
    const std::array<int64_t, 2> together{-1, width * int64_t{op.bins}};
    const std::string x =
        file_.add_node("Reshape", {value(part.value), file_.add_integers("/shape", apart)});
    const std::string at = file_.add_node("Mul", {x, constant(float(op.bins))});
    const std::string within = file_.add_node(
        "Clip", {file_.add_node("Sub", {at, starts}), constant(0.0F), constant(1.0F)});
    parts.push_back(file_.add_node("Reshape", {within, file_.add_integers("/shape", together)}));
  }
  values_[op.output] = parts.size() == 1 ? parts[0] : file_.add_node("Concat", parts, {columns()});
}

void OnnxGraph::add(const model::CrossOp& op) {
  const auto input = [&](size_t i) { return value(op.parts.at(i).value); };
  values_[op.output] =
      file_.add_node("Add", {file_.add_node("Mul", {input(0), input(1)}), input(2)});
}

void OnnxGraph::add_output(size_t o) {
  const model::Output& output = program_.outputs[o];
  const std::string name = outputs_[o]["name"], raw = outputs_[o]["raw"];
  std::string scaled = value(output.input);
  if (output.scale != 1.0F) scaled = file_.add_node("Mul", {scaled, constant(output.scale)});
  file_.add_node("Add", {scaled, constant(output.offset)}, {}, raw);
  std::string prediction = raw;
  switch (output.loss) {
    case Loss::kLogistic:
      file_.add_node("Sigmoid", {raw}, {}, name);
      break;
    case Loss::kSoftmax:
      file_.add_node("Softmax", {raw}, {columns()}, name);
      break;
    case Loss::kPoisson: {
      const std::string limited = file_.add_node("Min", {raw, constant(model::kLogRateMax)});
      file_.add_node("Exp", {limited}, {}, name);
      break;
    }
    case Loss::kSquared:
    case Loss::kAbsolute:
    case Loss::kHuber:
    case Loss::kQuantile:
    case Loss::kHinge:
    case Loss::kBpr:
    case Loss::kSampledSoftmax:
      file_.add_node("Identity", {raw}, {}, name);
      break;
  }
  file_.add_output(name, output.width, str("the prediction of `", outputs_[o]["name"], "`"));
  file_.add_output(raw, output.width, "the value before the function of the output");
  outputs_[o]["width"] = output.width;
}

}  // namespace downpour::tools
