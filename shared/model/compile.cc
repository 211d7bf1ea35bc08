#include "shared/model/compile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "shared/job/field_output.h"
#include "shared/job/metric_names.h"
#include "shared/job/nearest_name.h"
#include "shared/model/layout.h"
#include "shared/model/variable_set.h"

namespace downpour::model {
namespace {

constexpr uint32_t kDimMax = 4096;              // floats per embedding row
constexpr uint32_t kUnitsMax = 65536;           // outputs of one dense sublayer
constexpr uint64_t kWidthMax = 1 << 20;         // floats per record in one value
constexpr uint64_t kDenseFloatsMax = 1U << 28;  // of one dense variable: 1 GiB
constexpr float kEmbeddingScale = 0.05F;

const std::vector<std::string> kLayerTypes = {"linear",  "embedding", "dense", "relu",
                                              "sigmoid", "concat",    "add"};
const std::vector<std::string> kLosses = {"logistic", "softmax_cross_entropy", "squared"};

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(word, names);
  return nearest.empty() ? "one of: " + join(names) : "did you mean '" + nearest + "'?";
}

std::optional<Activation> parse_activation(const std::string& name) {
  if (name.empty() || name == "linear") return Activation::kNone;
  if (name == "relu") return Activation::kRelu;
  if (name == "sigmoid") return Activation::kSigmoid;
  return std::nullopt;
}

/// The default is that of He et al. 2015 before a relu, otherwise that of Glorot and Bengio 2010.
InitSpec kernel_init(const LayerSpec& layer, uint32_t in, uint32_t out, Activation activation) {
  if (layer.init) return *layer.init;
  const double fan = activation == Activation::kRelu ? in : double(in) + out;
  return {InitType::kUniform, float(std::sqrt(6.0 / fan))};
}

class Compiler final {
 public:
  explicit Compiler(const Job& job) : job_(job), variables_(job) {}

  Result<Program> run() {
    if (job_.model.outputs.empty()) {
      where_ = "model.outputs";
      return error("the model has no output", "give one an input, a loss and a target");
    }
    for (size_t i = 0; i < job_.model.layers.size(); ++i) {
      where_ = str("model.layers[", i, "] (", job_.model.layers[i].name, ")");
      DP_TRY_VOID(add_layer(job_.model.layers[i]));
    }
    program_.input_floats = uint32_t(program_.layout.floats.size());
    for (size_t i = 0; i < job_.model.outputs.size(); ++i) {
      where_ = str("model.outputs[", i, "] (", job_.model.outputs[i].name, ")");
      DP_TRY_VOID(add_output(job_.model.outputs[i]));
    }
    for (size_t i = 0; i < job_.model.outputs.size(); ++i) {
      where_ = str("model.outputs[", i, "] (", job_.model.outputs[i].name, ")");
      DP_TRY_VOID(add_weights(i));
    }
    DP_TRY_VOID(check_all_used());
    variables_.finish(program_);
    program_.output_specs = job_.model.outputs;
    program_.mean = job_.train.reduction == "mean";
    lay_out(program_, values_);
    return std::move(program_);
  }

 private:
  /// Returns an error of the current layer or output.
  Error error(std::string what, std::string hint = {}) const {
    return Error{ErrorCode::kConfig, std::move(what), where_, std::move(hint), {}};
  }

  /// The inputs of a layer, separated by kind.
  struct Inputs {
    std::vector<std::string> keys;  // sparse fields
    std::vector<ValueId> values;    // numbers and layers, in order
  };

  ValueId add_value(uint64_t width, bool needs_gradient) {
    values_.push_back({});
    Value value;
    value.width = uint32_t(width);
    value.needs_gradient = needs_gradient;
    program_.values.push_back(value);
    return ValueId(program_.values.size() - 1);
  }

  uint32_t float_column(const FieldSpec& field, uint64_t width) {
    std::vector<FloatInput>& floats = program_.layout.floats;
    for (uint32_t i = 0; i < floats.size(); ++i) {
      if (floats[i].field == field.name) return i;
    }
    floats.push_back({field.name, uint32_t(width)});
    return uint32_t(floats.size() - 1);
  }

  Result<uint64_t> width_of(const FieldSpec& field) const {
    uint64_t width = 1;
    for (const int64_t d : number_shape(field)) {
      if (d < 1 || uint64_t(d) > kWidthMax || (width *= uint64_t(d)) > kWidthMax) {
        return error(str("field '", field.name, "' is no vector of 1 to ", kWidthMax, " numbers"),
                     "mend its shape");
      }
    }
    return width;
  }

  Result<ValueId> field_value(const FieldSpec& field) {
    if (const auto found = float_values_.find(field.name); found != float_values_.end()) {
      return found->second;
    }
    DP_TRY(const uint64_t width, width_of(field));
    const ValueId value = add_value(width, false);
    program_.values[value].float_index = float_column(field, width);
    float_values_[field.name] = value;
    return value;
  }

  Error unknown_name(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [layer, value] : layers_) names.push_back(layer);
    for (const FieldSpec& field : job_.data.fields) names.push_back(field.name);
    for (const LayerSpec& layer : job_.model.layers) {
      if (layer.name == name) {
        return error(str("'", name, "' is not an earlier layer"),
                     "a layer reads fields and the layers above it: change the order");
      }
    }
    return error(str("no field or layer is named '", name, "'"), did_you_mean(name, names));
  }

  Result<Inputs> find_inputs(const LayerSpec& layer) {
    if (layer.inputs.empty()) return error("the layer has no inputs", "inputs = [\"...\"]");
    Inputs inputs;
    std::set<std::string> seen;
    for (const std::string& name : layer.inputs) {
      if (layer.type != "add" && !seen.insert(name).second) {
        return error(str("input '", name, "' stands twice"));
      }
      if (const auto found = layers_.find(name); found != layers_.end()) {
        inputs.values.push_back(found->second);
        continue;
      }
      const FieldSpec* field = job_.data.find_field(name);
      if (field == nullptr) return unknown_name(name);
      if (is_sparse(*field)) {
        inputs.keys.push_back(name);
      } else {
        DP_TRY(const ValueId value, field_value(*field));
        inputs.values.push_back(value);
      }
    }
    return inputs;
  }

  /// Returns one value that concatenates the given ones. The same list returns the same value.
  Result<ValueId> concat(const std::vector<ValueId>& values) {
    if (values.size() == 1) return values[0];
    if (const auto found = concats_.find(values); found != concats_.end()) return found->second;
    ConcatOp op;
    uint64_t width = 0;
    bool needs_gradient = false;
    for (const ValueId v : values) {
      op.parts.push_back({v, uint32_t(width), false});
      width += program_.values[v].width;
      if (width > kWidthMax) return error(str("its inputs have more than ", kWidthMax, " columns"));
      needs_gradient = needs_gradient || program_.values[v].needs_gradient;
      ++values_[v].uses;
    }
    op.output = add_value(width, needs_gradient);
    values_[op.output].parts = op.parts;
    program_.ops.push_back(op);
    concats_[values] = op.output;
    return op.output;
  }

  Result<void> add_layer(const LayerSpec& layer) {
    if (layer.name.empty()) return error("the layer has no name");
    if (layers_.contains(layer.name)) return error("another layer has this name");
    if (job_.data.find_field(layer.name) != nullptr) return error("a field has this name");
    if (std::find(kLayerTypes.begin(), kLayerTypes.end(), layer.type) == kLayerTypes.end()) {
      return error(str("no layer type is called '", layer.type, "'"),
                   did_you_mean(layer.type, kLayerTypes));
    }
    DP_TRY(const Inputs inputs, find_inputs(layer));
    const bool keys = layer.type == "linear" || layer.type == "embedding";
    if (!keys && !inputs.keys.empty()) {
      return error(
          str("'", inputs.keys[0], "' is a field of keys, and ", layer.type, " reads numbers"),
          "put an embedding or a linear layer between them");
    }
    DP_TRY(const ValueId value, layer.type == "linear"      ? add_linear(layer, inputs)
                                : layer.type == "embedding" ? add_embedding(layer, inputs)
                                : layer.type == "dense"     ? add_dense(layer, inputs)
                                : layer.type == "add"       ? add_sum(inputs)
                                : layer.type == "concat"    ? concat(inputs.values)
                                                            : add_activation(layer, inputs));
    layers_[layer.name] = value;
    return {};
  }

  Result<ValueId> add_linear(const LayerSpec& layer, const Inputs& inputs) {
    if (layer.units.size() > 1) return error("a linear layer has one number of units");
    const uint32_t units = layer.units.empty() ? 1 : layer.units[0];
    if (units < 1 || units > kDimMax) return error(str("units must be 1 to ", kDimMax));
    const InitSpec init = layer.init.value_or(InitSpec{});
    const uint32_t bias =
        layer.bias ? variables_.add_dense(layer.name + "/bias", {units}, InitSpec{}) : kNoIndex;
    if (!inputs.values.empty()) DP_TRY_VOID(check_kernel(inputs.values, units));
    DenseOp dense;
    if (!inputs.values.empty()) {
      DP_TRY(dense.input, concat(inputs.values));
      ++values_[dense.input].uses;
      dense.kernel = variables_.add_dense(layer.name + "/kernel",
                                          {program_.values[dense.input].width, units}, init);
    }
    const ValueId output = add_value(units, true);
    if (!inputs.values.empty()) {
      dense.output = output;
      dense.bias = bias;
      program_.ops.push_back(dense);
    }
    if (inputs.keys.empty()) return output;
    PoolOp pool;
    pool.dim = units;
    pool.concat = false;
    pool.accumulate = !inputs.values.empty();
    pool.bias = pool.accumulate ? kNoIndex : bias;
    pool.output = output;
    const uint32_t weights = variables_.add_rows(inputs.keys, layer.name + "/weights", units, init);
    for (const std::string& field : inputs.keys) {
      pool.bags.push_back({variables_.bag(field, weights), weights});
    }
    program_.ops.push_back(pool);
    return output;
  }

  Result<ValueId> add_embedding(const LayerSpec& layer, const Inputs& inputs) {
    if (!inputs.values.empty()) {
      return error("an embedding reads fields of keys only",
                   "feed numbers to a separate dense layer, or hash the field");
    }
    if (layer.dim < 1 || layer.dim > kDimMax) return error(str("dim must be 1 to ", kDimMax));
    if (layer.pool != "sum" && layer.pool != "mean") {
      return error(str("pool is '", layer.pool, "'"), "\"sum\" or \"mean\"");
    }
    if (!layer.table.empty() && layer.table != "shared") {
      return error(str("table is '", layer.table, "'"), "\"shared\", or nothing for one a field");
    }
    const uint64_t width = uint64_t{layer.dim} * inputs.keys.size();
    if (width > kWidthMax) return error(str("it gives more than ", kWidthMax, " columns"));
    const InitSpec init = layer.init.value_or(InitSpec{InitType::kUniform, kEmbeddingScale});
    PoolOp pool;
    pool.dim = layer.dim;
    pool.mean = layer.pool == "mean";
    if (layer.table == "shared") {
      const uint32_t table =
          variables_.add_rows(inputs.keys, layer.name + "/table", layer.dim, init);
      for (const std::string& field : inputs.keys) {
        pool.bags.push_back({variables_.bag(field, table), table});
      }
    } else {
      for (const std::string& field : inputs.keys) {
        const uint32_t rows =
            variables_.add_rows({field}, layer.name + "/" + field, layer.dim, init);
        pool.bags.push_back({variables_.bag(field, rows), rows});
      }
    }
    pool.output = add_value(width, true);
    program_.ops.push_back(pool);
    return pool.output;
  }

  Result<void> check_kernel(const std::vector<ValueId>& inputs, uint32_t units) const {
    uint64_t in = 0;
    for (const ValueId v : inputs) in += program_.values[v].width;
    if (in * units <= kDenseFloatsMax) return {};
    return error(str("a kernel of ", in, " x ", units, " is above ", kDenseFloatsMax, " floats"));
  }

  Result<ValueId> add_dense(const LayerSpec& layer, const Inputs& inputs) {
    const std::optional<Activation> between = parse_activation(layer.activation);
    const std::optional<Activation> last = parse_activation(layer.last);
    if (!between || !last) {
      const std::string& name = between ? layer.last : layer.activation;
      return error(str("no activation is called '", name, "'"), "relu, sigmoid, or \"\" for none");
    }
    if (layer.units.empty()) return error("a dense layer needs units", "units = [64, 32, 1]");
    DP_TRY(ValueId value, concat(inputs.values));
    for (size_t i = 0; i < layer.units.size(); ++i) {
      const uint32_t units = layer.units[i];
      if (units < 1 || units > kUnitsMax) return error(str("units must be 1 to ", kUnitsMax));
      DP_TRY_VOID(check_kernel({value}, units));
      DenseOp op;
      op.activation = i + 1 == layer.units.size() ? *last : *between;
      const std::string prefix = str(layer.name, "/", i);
      const uint32_t in = program_.values[value].width;
      op.kernel = variables_.add_dense(prefix + "/kernel", {in, units},
                                       kernel_init(layer, in, units, op.activation));
      if (layer.bias) op.bias = variables_.add_dense(prefix + "/bias", {units}, InitSpec{});
      op.input = value;
      ++values_[value].uses;
      op.output = value = add_value(units, true);
      program_.ops.push_back(op);
    }
    return value;
  }

  Result<ValueId> add_activation(const LayerSpec& layer, const Inputs& inputs) {
    ActivationOp op;
    op.activation = *parse_activation(layer.type);
    DP_TRY(op.input, concat(inputs.values));
    ++values_[op.input].uses;
    const Value input = program_.values[op.input];
    op.output = add_value(input.width, input.needs_gradient);
    program_.ops.push_back(op);
    return op.output;
  }

  Result<ValueId> add_sum(const Inputs& inputs) {
    AddOp op;
    const uint32_t width = program_.values[inputs.values[0]].width;
    bool needs_gradient = false;
    for (const ValueId v : inputs.values) {
      const Value& value = program_.values[v];
      if (value.width != width) {
        return error(str("add needs inputs of one width, and has ", width, " and ", value.width));
      }
      needs_gradient = needs_gradient || value.needs_gradient;
      ++values_[v].uses;
      op.parts.push_back({v, 0, false});
    }
    op.output = add_value(width, needs_gradient);
    program_.ops.push_back(op);
    return op.output;
  }

  /// Checks that a field can give a target or weights: numbers, or texts that are read as 0 and 1.
  /// Returns its width.
  Result<uint64_t> number_field(const std::string& name, const char* role) const {
    const FieldSpec* field = job_.data.find_field(name);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (const FieldSpec& f : job_.data.fields) names.push_back(f.name);
      return error(str("its ", role, " '", name, "' is no field"), did_you_mean(name, names));
    }
    if (is_sparse(*field)) {
      return error(str("its ", role, " '", name, "' is a field of keys, not of numbers"),
                   "give it type = \"float32\", or positive = [...] for texts that read as 1");
    }
    return width_of(*field);
  }

  Result<void> add_output(const OutputSpec& spec) {
    const auto layer = layers_.find(spec.input);
    if (layer == layers_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : layers_) names.push_back(name);
      return error(str("its input '", spec.input, "' is no layer"),
                   did_you_mean(spec.input, names));
    }
    if (!output_names_.insert(spec.name).second) return error("another output has this name");
    if (!(spec.weight >= 0.0F) || std::isinf(spec.weight)) return error("its weight is below 0");
    Output output;
    output.input = layer->second;
    output.width = program_.values[output.input].width;
    output.weight = spec.weight;
    const auto loss = std::find(kLosses.begin(), kLosses.end(), spec.loss);
    if (loss == kLosses.end()) {
      return error(str("no loss is called '", spec.loss, "'"), did_you_mean(spec.loss, kLosses));
    }
    output.loss = Loss(loss - kLosses.begin());
    DP_TRY(const uint64_t width, number_field(spec.target, "target"));
    if (output.loss == Loss::kSoftmax) {
      if (width != 1) return error(str("target '", spec.target, "' must be one class number"));
      if (output.width < 2) {
        return error(str("softmax needs a column a class, and '", spec.input, "' has 1"),
                     "units = [classes], or loss = \"logistic\"");
      }
    } else if (width != output.width) {
      return error(str("'", spec.input, "' has ", output.width, " columns, and target '",
                       spec.target, "' has ", width));
    }
    DP_TRY_VOID(check_metrics(spec, output.width));
    output.target = float_column(*job_.data.find_field(spec.target), width);
    ++values_[output.input].uses;
    program_.outputs.push_back(output);
    return {};
  }

  Result<void> check_metrics(const OutputSpec& spec, uint32_t width) const {
    const std::vector<std::string>& known = supported_metrics(spec.loss);
    for (const std::string& metric : spec.metrics) {
      if (std::find(known.begin(), known.end(), metric) == known.end()) {
        return error(str("loss ", spec.loss, " has no metric '", metric, "'"),
                     did_you_mean(metric, known));
      }
      if (metric == "auc" && width != 1) {
        return error(str("auc ranks one column, and '", spec.input, "' has ", width),
                     "say metrics = [\"logloss\"], or give each column an output of its own");
      }
    }
    return {};
  }

  Result<void> add_weights(size_t i) {
    const OutputSpec& spec = job_.model.outputs[i];
    if (spec.weights.empty()) return {};
    DP_TRY(const uint64_t width, number_field(spec.weights, "field of weights"));
    if (width != 1) return error(str("weights '", spec.weights, "' must be one number a record"));
    program_.outputs[i].weights = float_column(*job_.data.find_field(spec.weights), 1);
    return {};
  }

  Result<void> check_all_used() {
    for (size_t i = 0; i < job_.model.layers.size(); ++i) {
      const std::string& name = job_.model.layers[i].name;
      if (values_[layers_.at(name)].uses > 0) continue;
      where_ = str("model.layers[", i, "] (", name, ")");
      return error("nothing reads this layer",
                   "make it an input of another layer or of an output, or delete it");
    }
    return {};
  }

  const Job& job_;
  std::string where_;
  Program program_;
  std::vector<ValueUse> values_;  // in the order of program_.values
  VariableSet variables_;
  std::map<std::string, ValueId> layers_;
  std::map<std::string, ValueId> float_values_;
  std::map<std::vector<ValueId>, ValueId> concats_;
  std::set<std::string> output_names_;
};

}  // namespace

Result<Program> compile(const Job& job) { return Compiler(job).run(); }

}  // namespace downpour::model
