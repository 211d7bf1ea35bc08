#include "shared/model/compile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/hash.h"
#include "shared/job/field_output.h"
#include "shared/job/layers.h"
#include "shared/model/dot.h"
#include "shared/model/layout.h"
#include "shared/model/negatives.h"
#include "shared/model/outputs.h"
#include "shared/model/variable_set.h"

namespace downpour::model {
namespace {

constexpr uint32_t kDimMax = 4096;       // floats per embedding row
constexpr uint32_t kUnitsMax = 65536;    // outputs of one dense sublayer
constexpr uint64_t kWidthMax = 1 << 20;  // floats per record in one value

/// The default is that of He et al. 2015 before a relu, otherwise that of Glorot and Bengio 2010.
InitSpec kernel_init(const LayerSpec& layer, uint32_t in, uint32_t out,
                     Activation activation = Activation::kNone) {
  if (layer.init) return *layer.init;
  const double fan = info_of(activation).rectifies ? in : double(in) + out;
  return {InitType::kUniform, float(std::sqrt(6.0 / fan))};
}

class Compiler final {
 public:
  explicit Compiler(const Job& job) : job_(job), variables_(job) {}

  Result<Program> run() {
    for (size_t i = 0; i < job_.model.layers.size(); ++i) {
      where_ = str("model.layers[", i, "] (", job_.model.layers[i].name, ")");
      DP_TRY_VOID(add_layer(job_.model.layers[i]));
    }
    if (job_.model.is_custom()) DP_TRY_VOID(add_custom());
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
    if (job_.model.is_custom()) place_predictions();
    DP_TRY_VOID(variables_.check_rules());
    variables_.finish(program_);
    program_.output_specs = job_.model.outputs;
    program_.negatives = negatives_of(job_, program_.layout);
    for (const SliceSpec& slice : job_.eval.slices)
      program_.slice_rows.push_back(uint32_t(slice.rows()));
    program_.grouped = !job_.eval.group_by.empty();
    // In synchronous training the ps divides the sum of a step's gradients, and clips it. A replica
    // that trains alone divides and clips its own.
    if (!job_.train.replicas || job_.train.sync_every) program_.clip = job_.clip;
    program_.mean =
        job_.train.reduction == "mean" && (!job_.train.replicas || job_.train.sync_every);
    program_.weighs_custom =
        job_.model.is_custom() && job_.train.replicas && job_.train.reduction == "mean";
    // The order of a batch's unique keys depends on the number of ps, but the model must not.
    program_.any_key_order = !job_.train.replicas;
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
    const auto known = std::ranges::find(floats, field.name, &FloatInput::field);
    if (known != floats.end()) return uint32_t(known - floats.begin());
    floats.push_back({field.name, uint32_t(width)});
    return uint32_t(floats.size() - 1);
  }

  Result<uint64_t> width_of(const FieldSpec& field) const {
    uint64_t width = 1;
    for (const int64_t d : number_shape(field)) {
      if (d < 1 || uint64_t(d) > kWidthMax || (width *= uint64_t(d)) > kWidthMax) {
        return error(
            str("field '", field.name, "' is not a vector of 1 to ", kWidthMax, " numbers"),
            "correct its shape");
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

  Result<Inputs> find_inputs(const LayerSpec& layer) {
    Inputs inputs;
    for (const std::string& name : layer.inputs) {
      if (const auto found = layers_.find(name); found != layers_.end()) {
        inputs.values.push_back(found->second);
        continue;
      }
      const FieldSpec* field = job_.data.find_field(name);
      DP_CHECK(field != nullptr, layer.name, name);
      if (is_sparse(*field)) {
        inputs.keys.push_back(name);
      } else {
        DP_TRY(const ValueId value, field_value(*field));
        inputs.values.push_back(value);
      }
    }
    return inputs;
  }

  /// Returns a value as part of an operation's inputs, and counts the use.
  Part part(ValueId value, uint32_t column = 0) {
    ++values_[value].uses;
    return {value, column, false};
  }

  bool any_needs_gradient(const std::vector<ValueId>& values) const {
    return std::ranges::any_of(values,
                               [&](ValueId v) { return program_.values[v].needs_gradient; });
  }

  /// Returns one value that concatenates the given ones. The same list returns the same value.
  Result<ValueId> concat(const std::vector<ValueId>& values) {
    if (values.size() == 1) return values[0];
    if (const auto found = concats_.find(values); found != concats_.end()) return found->second;
    ConcatOp op;
    uint64_t width = 0;
    for (const ValueId v : values) {
      op.parts.push_back(part(v, uint32_t(width)));
      width += program_.values[v].width;
      if (width > kWidthMax) return error(str("its inputs have more than ", kWidthMax, " columns"));
    }
    op.output = add_value(width, any_needs_gradient(values));
    values_[op.output].parts = op.parts;
    program_.ops.push_back(op);
    concats_[values] = op.output;
    return op.output;
  }

  Result<void> add_layer(const LayerSpec& layer) {
    struct Translation {
      std::string_view type;
      Result<ValueId> (Compiler::*add)(const LayerSpec& layer, const Inputs& inputs);
    };
    static constexpr std::array kTranslations{Translation{"linear", &Compiler::add_linear},
                                              Translation{"embedding", &Compiler::add_embedding},
                                              Translation{"fm", &Compiler::add_fm},
                                              Translation{"dense", &Compiler::add_dense},
                                              Translation{"relu", &Compiler::add_activation},
                                              Translation{"sigmoid", &Compiler::add_activation},
                                              Translation{"concat", &Compiler::add_concat},
                                              Translation{"add", &Compiler::add_sum},
                                              Translation{"piecewise", &Compiler::add_piecewise},
                                              Translation{"dropout", &Compiler::add_dropout},
                                              Translation{"cross", &Compiler::add_cross},
                                              Translation{"dot", &Compiler::add_dot},
                                              Translation{"leaky_relu", &Compiler::add_activation},
                                              Translation{"gelu", &Compiler::add_activation},
                                              Translation{"silu", &Compiler::add_activation},
                                              Translation{"tanh", &Compiler::add_activation},
                                              Translation{"layer_norm", &Compiler::add_norm}};
    // Every type of shared/job/layers.h has a translation, in the same order.
    static_assert(
        std::ranges::equal(kTranslations, kLayers, {}, &Translation::type,
                           [](const LayerInfo& info) { return std::string_view(info.type); }));

    if (job_.data.find_field(layer.name) != nullptr) return error("a field already has this name");
    const LayerInfo* type = find_layer_type(layer.type);
    DP_CHECK(type != nullptr && !layer.inputs.empty(), layer.name, layer.type);
    DP_CHECK(!type->needs_units || !layer.units.empty(), layer.name);
    DP_TRY(const Inputs inputs, find_inputs(layer));
    DP_CHECK(type->reads_keys || inputs.keys.empty(), layer.name);
    DP_CHECK(type->reads_numbers || inputs.values.empty(), layer.name);
    DP_TRY(const ValueId value,
           (this->*kTranslations[size_t(type - kLayers.data())].add)(layer, inputs));
    DP_CHECK(layers_.emplace(layer.name, value).second, layer.name);
    return {};
  }

  Result<ValueId> add_linear(const LayerSpec& layer, const Inputs& inputs) {
    if (layer.units.size() > 1) return error("a linear layer needs exactly one number in `units`");
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
    const uint32_t weights =
        variables_.add_rows(inputs.keys, layer.name + "/weights", units, init, /*by_field=*/true);
    for (const std::string& field : inputs.keys) {
      pool.bags.push_back({variables_.bag(field, weights), weights});
    }
    program_.ops.push_back(pool);
    return output;
  }

  /// Returns the bags of a layer that reads embedding rows. Declares the variables of these rows,
  /// unless they are those of an earlier layer.
  std::vector<BagUse> add_row_bags(const LayerSpec& layer, const std::vector<std::string>& fields) {
    const InitSpec init = layer.init.value_or(kRowInit);
    std::map<std::string, uint32_t>& rows = rows_[layer.name];
    if (const std::string* owner = layer.rows_of()) {
      for (const std::string& field : fields) rows[field] = rows_.at(*owner).at(field);
    } else if (layer.table.empty()) {
      for (const std::string& field : fields) {
        rows[field] = variables_.add_rows({field}, layer.name + "/" + field, layer.dim, init);
      }
    } else {
      const uint32_t table = variables_.add_rows(fields, layer.name + "/table", layer.dim, init,
                                                 layer.table == "by_field");
      for (const std::string& field : fields) rows[field] = table;
    }
    std::vector<BagUse> bags;
    for (const std::string& field : fields) {
      bags.push_back({variables_.bag(field, rows[field]), rows[field]});
    }
    return bags;
  }

  Result<ValueId> add_embedding(const LayerSpec& layer, const Inputs& inputs) {
    if (layer.dim < 1 || layer.dim > kDimMax) return error(str("dim must be 1 to ", kDimMax));
    const uint64_t width = uint64_t{layer.dim} * inputs.keys.size();
    if (width > kWidthMax) return error(str("its output has more than ", kWidthMax, " columns"));
    PoolOp pool;
    pool.dim = layer.dim;
    pool.mean = layer.pool == "mean";
    pool.bags = add_row_bags(layer, inputs.keys);
    pool.output = add_value(width, true);
    program_.ops.push_back(pool);
    return drop(pool.output, layer.dropout, layer.name);
  }

  /// A factorization machine (Rendle 2010), or with `units` the linear map of the columns of its
  /// sum (He and Chua, "Neural Factorization Machines", SIGIR 2017).
  Result<ValueId> add_fm(const LayerSpec& layer, const Inputs& inputs) {
    if (layer.dim < 1 || layer.dim > kDimMax) return error(str("dim must be 1 to ", kDimMax));
    if (layer.units.size() > 1) return error("an fm layer needs exactly one number in `units`");
    FmOp fm;
    fm.dim = layer.dim;
    fm.bags = add_row_bags(layer, inputs.keys);
    fm.by_column = layer.dropout > 0.0F || !layer.units.empty();
    fm.sums = add_value(layer.dim, false);
    fm.output = add_value(fm.by_column ? layer.dim : 1, true);
    program_.ops.push_back(fm);
    if (!fm.by_column) return fm.output;
    const ValueId kept = drop(fm.output, layer.dropout, layer.name);
    if (!layer.units.empty()) {
      const uint32_t units = layer.units[0];
      if (units < 1 || units > kUnitsMax) return error(str("units must be 1 to ", kUnitsMax));
      return multiply(kept, {.kernel = layer.name + "/kernel",
                             .units = units,
                             .init = kernel_init({}, layer.dim, units)});
    }
    SumOp sum;
    sum.parts.push_back(part(kept));
    sum.output = add_value(1, true);
    program_.ops.push_back(sum);
    return sum.output;
  }

  /// Adds an operation from `value` to a new value of the same width, which it returns.
  template <typename Op>
  ValueId mapped(ValueId value, Op op) {
    op.input = value;
    ++values_[value].uses;
    const Value input = program_.values[value];
    op.output = add_value(input.width, input.needs_gradient);
    program_.ops.push_back(op);
    return op.output;
  }

  /// Returns `value` after dropout, or `value` itself if the rate is 0. `place` names the
  /// operation: it selects the random stream.
  ValueId drop(ValueId value, float rate, const std::string& place) {
    if (rate == 0.0F) return value;
    DropoutOp op;
    op.rate = rate;
    op.stream = hash_string(place, mix64(job_.seed));
    return mapped(value, op);
  }

  Result<ValueId> add_dropout(const LayerSpec& layer, const Inputs& inputs) {
    DP_TRY(const ValueId value, concat(inputs.values));
    return drop(value, layer.dropout, layer.name);
  }

  Result<void> check_kernel(const std::vector<ValueId>& inputs, uint32_t units) const {
    uint64_t in = 0;
    for (const ValueId v : inputs) in += program_.values[v].width;
    if (in * units <= kDenseFloatsMax) return {};
    return error(str("a kernel of ", in, " x ", units, " exceeds the maximum of ", kDenseFloatsMax,
                     " floats"));
  }

  /// A product of a value with a kernel, before an activation.
  struct Product {
    std::string kernel, bias;  // names of the variables; `bias` may be empty
    uint32_t units = 1;
    Activation activation = Activation::kNone;
    InitSpec init;
  };

  Result<ValueId> multiply(ValueId input, const Product& product) {
    DP_TRY_VOID(check_kernel({input}, product.units));
    DenseOp op;
    const bool apart = info_of(product.activation).needs_input;
    if (!apart) op.activation = product.activation;
    op.kernel = variables_.add_dense(product.kernel, {program_.values[input].width, product.units},
                                     product.init);
    if (!product.bias.empty())
      op.bias = variables_.add_dense(product.bias, {product.units}, InitSpec{});
    op.input = input;
    ++values_[input].uses;
    op.output = add_value(product.units, true);
    program_.ops.push_back(op);
    if (apart) return activated(op.output, product.activation);
    return op.output;
  }

  Result<ValueId> add_dense(const LayerSpec& layer, const Inputs& inputs) {
    const Activation between = activation_of(layer.activation);
    const Activation last = activation_of(layer.last);
    DP_TRY(ValueId value, concat(inputs.values));
    for (size_t i = 0; i < layer.units.size(); ++i) {
      const uint32_t units = layer.units[i];
      if (units < 1 || units > kUnitsMax) return error(str("units must be 1 to ", kUnitsMax));
      const bool is_last = i + 1 == layer.units.size();
      const std::string prefix = str(layer.name, "/", i);
      const Activation activation = is_last ? last : between;
      DP_TRY(value, multiply(value, {.kernel = prefix + "/kernel",
                                     .bias = layer.bias ? prefix + "/bias" : "",
                                     .units = units,
                                     .activation = activation,
                                     .init = kernel_init(layer, program_.values[value].width, units,
                                                         activation)}));
      if (!is_last) value = drop(value, layer.dropout, prefix);
    }
    return value;
  }

  /// The cross network of Wang et al., "DCN V2", WWW 2021: x_{l+1} = x_0 * (W x_l + b) + x_l. With
  /// a rank, W is the product of two narrow matrices.
  Result<ValueId> add_cross(const LayerSpec& layer, const Inputs& inputs) {
    DP_TRY(const ValueId first, concat(inputs.values));
    const uint32_t width = program_.values[first].width;
    if (layer.rank >= width) {
      return error(str("rank is ", layer.rank, ", but its inputs have ", width, " columns"),
                   "set a lower rank, or delete it for the full kernel");
    }
    ValueId x = first;
    for (uint32_t i = 0; i < layer.depth; ++i) {
      const std::string prefix = str(layer.name, "/", i);
      ValueId product = x;
      if (layer.rank > 0) {
        DP_TRY(product, multiply(product, {.kernel = prefix + "/down",
                                           .units = layer.rank,
                                           .init = kernel_init(layer, width, layer.rank)}));
      }
      const uint32_t in = layer.rank > 0 ? layer.rank : width;
      DP_TRY(product, multiply(product, {.kernel = prefix + "/kernel",
                                         .bias = layer.bias ? prefix + "/bias" : "",
                                         .units = width,
                                         .init = kernel_init(layer, in, width)}));
      CrossOp op;
      for (const ValueId v : {first, product, x}) op.parts.push_back(part(v));
      op.output = x = add_value(width, true);
      program_.ops.push_back(op);
    }
    return x;
  }

  Result<ValueId> add_dot(const LayerSpec& layer, const Inputs& inputs) {
    DotOp op;
    op.dim = layer.dim;
    for (const ValueId v : inputs.values) {
      const uint32_t width = program_.values[v].width;
      if (width % op.dim == 0) continue;
      return error(str("an input has ", width, " columns, but dim is ", op.dim),
                   str("give every input a multiple of ", op.dim, " columns, or change dim"));
    }
    DP_TRY(op.input, concat(inputs.values));
    const Value input = program_.values[op.input];
    const size_t vectors = input.width / op.dim;
    if (vectors < 2 || vectors > kVectorsMax) {
      return error(str("its inputs have ", vectors, " vectors of ", op.dim,
                       " columns, but it needs 2 to ", kVectorsMax));
    }
    ++values_[op.input].uses;
    op.output = add_value(pairs_of(vectors), input.needs_gradient);
    program_.ops.push_back(op);
    return op.output;
  }

  ValueId activated(ValueId value, Activation activation) {
    ActivationOp op;
    op.activation = activation;
    return mapped(value, op);
  }

  Result<ValueId> add_activation(const LayerSpec& layer, const Inputs& inputs) {
    DP_TRY(const ValueId value, concat(inputs.values));
    return activated(value, activation_of(layer.type));
  }

  Result<ValueId> add_norm(const LayerSpec& layer, const Inputs& inputs) {
    NormOp op;
    DP_TRY(op.input, concat(inputs.values));
    ++values_[op.input].uses;
    const uint32_t width = program_.values[op.input].width;
    op.scale = variables_.add_dense(layer.name + "/scale", {width}, InitSpec{});
    op.shift = variables_.add_dense(layer.name + "/shift", {width}, InitSpec{});
    op.output = add_value(width, true);
    program_.ops.push_back(op);
    return op.output;
  }

  Result<ValueId> add_concat(const LayerSpec& /*layer*/, const Inputs& inputs) {
    return concat(inputs.values);
  }

  Result<ValueId> add_sum(const LayerSpec& /*layer*/, const Inputs& inputs) {
    AddOp op;
    const uint32_t width = program_.values[inputs.values[0]].width;
    for (const ValueId v : inputs.values) {
      if (program_.values[v].width != width) {
        return error(str("add needs inputs of the same width, but has inputs of width ", width,
                         " and ", program_.values[v].width));
      }
      op.parts.push_back(part(v));
    }
    op.output = add_value(width, any_needs_gradient(inputs.values));
    program_.ops.push_back(op);
    return op.output;
  }

  Result<ValueId> add_piecewise(const LayerSpec& layer, const Inputs& inputs) {
    PiecewiseOp op{.bins = layer.bins};
    uint64_t width = 0;
    for (const ValueId v : inputs.values) {
      op.parts.push_back(part(v, uint32_t(width)));
      width += uint64_t{layer.bins} * program_.values[v].width;
      if (width > kWidthMax) return error(str("its output has more than ", kWidthMax, " columns"));
    }
    op.output = add_value(width, any_needs_gradient(inputs.values));
    program_.ops.push_back(op);
    return op.output;
  }

  /// Returns the width of the field that gives a target or weights; 1 if there is no target.
  Result<uint64_t> number_field(const std::string& name) const {
    if (name.empty()) return uint64_t{1};
    const FieldSpec* field = job_.data.find_field(name);
    DP_CHECK(field != nullptr && !is_sparse(*field), name);
    return width_of(*field);
  }

  /// Declares the variables of a model without layers, and reads all numbers but the targets and
  /// weights.
  Result<void> add_custom() {
    DP_TRY_VOID(variables_.declare_custom());
    for (const FieldSpec& field : job_.data.fields) {
      const bool is_role = std::ranges::any_of(job_.model.outputs, [&](const OutputSpec& output) {
        return output.target == field.name || output.weights == field.name;
      });
      if (is_role || is_sparse(field)) continue;
      DP_TRY(const uint64_t width, width_of(field));
      float_column(field, width);
    }
    return {};
  }

  /// The predictions of a program follow the columns of a batch.
  void place_predictions() {
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      program_.values[program_.outputs[o].input].float_index =
          uint32_t(program_.layout.floats.size() + o);
    }
  }

  Result<void> add_output(const OutputSpec& spec) {
    if (!(spec.weight >= 0.0F) || std::isinf(spec.weight))
      return error("its weight must be finite and at least 0");
    DP_TRY(const uint64_t width, number_field(spec.target));
    Output output;
    output.input = job_.model.is_custom() ? add_value(prediction_width(job_, spec, width), false)
                                          : layers_.at(spec.input);
    output.width = program_.values[output.input].width;
    output.weight = spec.weight;
    output.loss = find_loss(spec.loss)->loss;  // the reader knows all names
    output.option = output.loss == Loss::kHuber ? spec.delta : spec.quantile;
    output.smoothing = spec.label_smoothing;
    output.top_k = job_.eval.top_k;
    output.offset = spec.offset.value;
    output.scale = spec.scale.open ? 1.0F : spec.scale.value;
    if (auto fits = check_output(job_, spec, output.width, width); !fits) {
      fits.error().where = where_;
      return std::move(fits).error();
    }
    if (!spec.target.empty())
      output.target = float_column(*job_.data.find_field(spec.target), width);
    if (job_.data.negatives.given()) output.target = kNoIndex;
    ++values_[output.input].uses;
    program_.outputs.push_back(output);
    return {};
  }

  Result<void> add_weights(size_t i) {
    const OutputSpec& spec = job_.model.outputs[i];
    if (spec.weights.empty()) return {};
    DP_TRY(const uint64_t width, number_field(spec.weights));
    if (width != 1) return error(str("weights '", spec.weights, "' must be one number per record"));
    program_.outputs[i].weights = float_column(*job_.data.find_field(spec.weights), 1);
    return {};
  }

  Result<void> check_all_used() {
    for (size_t i = 0; i < job_.model.layers.size(); ++i) {
      const std::string& name = job_.model.layers[i].name;
      if (values_[layers_.at(name)].uses > 0) continue;
      where_ = str("model.layers[", i, "] (", name, ")");
      return error("no layer or output reads this layer",
                   "make it the input of a layer or an output, or delete it");
    }
    return {};
  }

  const Job& job_;
  std::string where_;
  Program program_;
  std::vector<ValueUse> values_;  // in the order of program_.values
  VariableSet variables_;
  std::map<std::string, ValueId> layers_;
  // The handle of the variable that holds a layer's rows, for each of its fields.
  std::map<std::string, std::map<std::string, uint32_t>> rows_;
  std::map<std::string, ValueId> float_values_;
  std::map<std::vector<ValueId>, ValueId> concats_;
};

}  // namespace

Result<Program> compile(const Job& job) { return Compiler(job).run(); }

}  // namespace downpour::model
