#include "shared/job/preset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shared/base/error_text.h"
#include "shared/job/field_output.h"
#include "shared/job/losses.h"
#include "shared/job/metric_names.h"
#include "shared/job/nearest_name.h"
#include "shared/job/number_inputs.h"
#include "shared/job/preset_data.h"
#include "shared/job/preset_optimizers.h"
#include "shared/job/presets.h"
#include "shared/job/runs.h"
#include "shared/job/validate.h"
#include "shared/job/validate_negatives.h"

namespace downpour {
namespace {

/// Returns a name for a preset's layer or output that no field has.
std::string free_name(const DataSpec& data, std::string name) {
  while (data.find_field(name) != nullptr) name += "_";
  return name;
}

/// Returns whether two fields read the same column, feature or member.
bool reads_same(const FieldSpec& a, const FieldSpec& b) {
  return a.source_name() == b.source_name() && a.path == b.path;
}

struct Inputs {
  std::vector<std::string> all, sparse, numbers;
};

Result<Inputs> preset_inputs(const Job& job, const std::string& target) {
  Inputs inputs;
  std::vector<std::string> names = job.model.options.inputs;
  if (auto expanded = expand_runs(names, job.data.columns); !expanded) {
    expanded.error().where = "model.inputs";
    return std::move(expanded).error();
  }
  if (names.empty()) {
    const FieldSpec* const predicted = job.data.find_field(target);
    for (const FieldSpec& field : job.data.fields) {
      // A second field of the target's column would show the model what it has to predict.
      if (field.name == job.model.options.weights ||
          (predicted != nullptr && reads_same(field, *predicted)))
        continue;
      names.push_back(field.name);
    }
  }
  for (const std::string& name : names) {
    const FieldSpec* field = job.data.find_field(name);
    if (field == nullptr) {
      std::vector<std::string> fields;
      for (const FieldSpec& known : job.data.fields) fields.push_back(known.name);
      const std::string nearest = nearest_name(name, fields);
      return Error{ErrorCode::kConfig, str("there is no field `", name, "`"), "model.inputs",
                   nearest.empty() ? "use names of data.fields as inputs"
                                   : str("did you mean `", nearest, "`?"),
                   "DP-2108"};
    }
    if (name == target) {
      return Error{ErrorCode::kConfig, str("the input `", name, "` is the target"), "model.inputs",
                   "remove it: a model that reads its target predicts nothing", "DP-2107"};
    }
    (is_sparse(*field) ? inputs.sparse : inputs.numbers).push_back(name);
  }
  inputs.all = inputs.sparse;
  inputs.all.insert(inputs.all.end(), inputs.numbers.begin(), inputs.numbers.end());
  if (inputs.all.empty()) {
    return Error{ErrorCode::kConfig,
                 str("the preset has no inputs besides its target `", target, "`"), "model.inputs",
                 "declare data.fields", "DP-2107"};
  }
  return inputs;
}

/// Checks that a preset that needs keys has some.
Result<void> need_keys(const Job& job, const Inputs& inputs) {
  if (!inputs.sparse.empty()) return {};
  return Error{ErrorCode::kConfig, str(job.model.preset, " has no inputs that give keys"),
               "model.inputs", "use wide_deep for numbers", "DP-2107"};
}

/// Adds a piecewise-linear encoding of the quantiles among the inputs, which it replaces.
void add_piecewise(Job& job, Inputs& inputs) {
  LayerSpec layer;
  layer.name = free_name(job.data, "piecewise"), layer.type = "piecewise";
  layer.bins = job.model.options.bins;
  const auto quantile = [&](const std::string& name) {
    return is_quantile(*job.data.find_field(name));
  };
  std::ranges::copy_if(inputs.numbers, std::back_inserter(layer.inputs), quantile);
  if (layer.inputs.empty()) return;
  std::erase_if(inputs.numbers, quantile);
  std::erase_if(inputs.all, [&](const std::string& name) {
    return std::ranges::find(layer.inputs, name) != layer.inputs.end();
  });
  inputs.numbers.push_back(layer.name);
  inputs.all.push_back(layer.name);
  job.model.layers.push_back(std::move(layer));
}

/// Returns how a layer keeps the rows of all keys in one table (LayerSpec::table).
std::string one_table(const Job& job, const Inputs& inputs) {
  const bool numbered = std::ranges::any_of(inputs.sparse, [&](const std::string& name) {
    const FieldSpec* const field = job.data.find_field(name);
    return field != nullptr && numbers_keys(*field);
  });
  return numbered ? "by_field" : "shared";
}

/// Adds the embedding of all keys, if there are any, with one table of rows. Returns the inputs of
/// a network: the embedding and the numbers.
std::vector<std::string> add_embedding(Job& job, const Inputs& inputs, const std::string& name) {
  std::vector<std::string> read;
  if (!inputs.sparse.empty()) {
    const uint32_t dim = job.model.options.dim;
    job.model.layers.push_back({.name = name,
                                .type = "embedding",
                                .inputs = inputs.sparse,
                                .dim = dim == 0 ? 16 : dim,
                                .table = one_table(job, inputs)});
    read.push_back(name);
  }
  read.insert(read.end(), inputs.numbers.begin(), inputs.numbers.end());
  return read;
}

/// Returns the number of columns of a preset's output.
uint32_t output_columns(const PresetOptions& options) {
  return options.loss == "softmax_cross_entropy" ? options.classes : 1;
}

/// Adds hidden layers with relu, and a linear one for the output.
void add_tower(Job& job, const std::string& name, std::vector<std::string> inputs) {
  const PresetOptions& options = job.model.options;
  LayerSpec layer{.name = name, .type = "dense", .inputs = std::move(inputs)};
  layer.units = options.units.empty() ? std::vector<uint32_t>{64, 32} : options.units;
  layer.units.push_back(output_columns(options));
  layer.activation = "relu";
  layer.dropout = options.dropout;
  // With larger weights a regression on quantiles fits its records sooner, but others worse.
  if (options.loss == "squared" && options.bins > 0 && !options.units.empty())
    layer.init = InitSpec{InitType::kUniform, float(1 / std::sqrt(options.units.front()))};
  job.model.layers.push_back(std::move(layer));
}

/// Returns the name of the only output of a preset.
std::string output_name(const DataSpec& data, const LossInfo& loss) {
  return free_name(data, loss.target == TargetType::kClass ? "class" : loss.prediction());
}

void set_output(const Job& job, const std::string& input, OutputSpec& output) {
  const PresetOptions& options = job.model.options;
  output.loss = options.loss.empty() ? find_preset(job.model.preset)->loss : options.loss;
  const LossInfo& loss = *find_loss(output.loss);  // the reader knows all names
  output.name = output_name(job.data, loss);
  output.input = input;
}

Result<void> wide_deep(Job& job, Inputs inputs, OutputSpec& output) {
  const PresetOptions& options = job.model.options;
  if (options.bins > 0) add_piecewise(job, inputs);
  const std::string wide = free_name(job.data, "wide"), embedding = free_name(job.data, "emb");
  const std::string tower = free_name(job.data, "tower"), logit = free_name(job.data, "logit");
  LayerSpec layer{.name = wide, .type = "linear", .inputs = inputs.all};
  if (options.classes > 0) layer.units = {options.classes};
  std::vector<std::string> summed = {wide, tower};
  // The linear model of the standardized numbers has an optimizer of its own, with larger steps.
  LayerSpec line = layer;
  line.inputs.clear();
  if (options.bins > 0) line.inputs = take_standardized(job.data, layer.inputs);
  job.model.layers.push_back(layer);
  if (!line.inputs.empty()) {
    line.name = free_name(job.data, "line");
    summed.push_back(line.name);
    job.model.layers.push_back(line);
  }
  std::vector<std::string> deep = add_embedding(job, inputs, embedding);
  if (job.model.preset == "deepfm" && !inputs.sparse.empty()) {
    const std::string fm = free_name(job.data, "fm");
    job.model.layers.push_back({.name = fm,
                                .type = "fm",
                                .inputs = inputs.sparse,
                                .dim = job.model.layers.back().dim,
                                .units = layer.units,
                                .table = embedding});
    summed.push_back(fm);
  }
  add_tower(job, tower, std::move(deep));
  job.model.layers.push_back({.name = logit, .type = "add", .inputs = summed});
  set_output(job, logit, output);
  set_network_optimizer(job, inputs.sparse.empty() ? "" : wide,
                        inputs.sparse.empty() ? "" : embedding);
  if (!line.inputs.empty()) add_line_optimizer(job, line.name, width_of(job, line.inputs));
  return {};
}

/// The deep and cross network with both parts over the same inputs ("parallel" in the paper).
Result<void> dcn_v2(Job& job, Inputs inputs, OutputSpec& output) {
  constexpr uint32_t kRank = 32;
  if (job.model.options.bins > 0) add_piecewise(job, inputs);
  const std::string embedding = free_name(job.data, "emb"), cross = free_name(job.data, "cross");
  const std::string crossed = free_name(job.data, "crossed");
  const std::string tower = free_name(job.data, "tower"), logit = free_name(job.data, "logit");
  const std::vector<std::string> read = add_embedding(job, inputs, embedding);
  LayerSpec layer{.name = cross, .type = "cross", .inputs = read};
  // With a rank, a cross layer has 2 * rank * width weights instead of width^2.
  if (width_of(job, read) > uint64_t{4} * kRank) layer.rank = kRank;
  job.model.layers.push_back(layer);
  job.model.layers.push_back({.name = crossed,
                              .type = "dense",
                              .inputs = {cross},
                              .units = {output_columns(job.model.options)}});
  add_tower(job, tower, read);
  job.model.layers.push_back({.name = logit, .type = "add", .inputs = {crossed, tower}});
  set_output(job, logit, output);
  set_network_optimizer(job, "", inputs.sparse.empty() ? "" : embedding);
  return {};
}

/// DLRM: the inner products of all pairs of the embeddings and of the numbers, which the network
/// `bottom` turns into a vector of the same length. `top` reads them and that vector, or without
/// numbers the embeddings.
Result<void> dlrm(Job& job, Inputs inputs, OutputSpec& output) {
  const PresetOptions& options = job.model.options;
  DP_TRY_VOID(need_keys(job, inputs));
  if (options.bins > 0) add_piecewise(job, inputs);
  const std::string embedding = free_name(job.data, "emb"), bottom = free_name(job.data, "bottom");
  const std::string dot = free_name(job.data, "dot"), top = free_name(job.data, "top");
  add_embedding(job, inputs, embedding);
  const uint32_t dim = job.model.layers.back().dim;
  std::vector<std::string> vectors = {embedding};
  if (!inputs.numbers.empty()) {
    vectors = {bottom, embedding};
    job.model.layers.push_back({.name = bottom,
                                .type = "dense",
                                .inputs = inputs.numbers,
                                .units = {64, dim},
                                .activation = "relu",
                                .last = "relu",
                                .dropout = options.dropout});
  }
  job.model.layers.push_back({.name = dot, .type = "dot", .inputs = vectors, .dim = dim});
  add_tower(job, top, {vectors[0], dot});
  set_output(job, top, output);
  set_network_optimizer(job, "", inputs.sparse.empty() ? "" : embedding);
  return {};
}

Result<void> factorization_machine(Job& job, const Inputs& inputs, OutputSpec& output) {
  const PresetOptions& options = job.model.options;
  DP_TRY_VOID(need_keys(job, inputs));
  const std::string linear = free_name(job.data, "linear"), fm = free_name(job.data, "fm");
  job.model.layers.push_back({.name = linear, .type = "linear", .inputs = inputs.all});
  job.model.layers.push_back({.name = fm,
                              .type = "fm",
                              .inputs = inputs.sparse,
                              .dim = options.dim == 0 ? 16 : options.dim,
                              .table = one_table(job, inputs),
                              .dropout = options.dropout,
                              .init = InitSpec{InitType::kNormal, 0.03F}});
  const std::string logit = free_name(job.data, "logit");
  job.model.layers.push_back({.name = logit, .type = "add", .inputs = {linear, fm}});
  set_output(job, logit, output);
  if (options.own_optimizer) set_machine_optimizer(job, linear);
  return {};
}

/// Matrix factorization with biases: a factorization machine over the keys of two fields, such as
/// users and items.
Result<void> matrix_factorization(Job& job, const Inputs& inputs, OutputSpec& output) {
  if (inputs.sparse.size() != 2 || inputs.all.size() != 2) {
    return Error{ErrorCode::kConfig,
                 str("matrix_factorization takes two inputs that give keys, but the job has ",
                     inputs.all.size(), " inputs, of which ", inputs.sparse.size(), " give keys"),
                 "model.inputs",
                 "for example inputs = [\"user_id\", \"item_id\"]; factorization_machine takes any "
                 "number of inputs",
                 "DP-2107"};
  }
  return factorization_machine(job, inputs, output);
}

/// Checks that the preset has all options that the job sets.
Result<void> check_options(const ModelSpec& model) {
  const PresetOptions& options = model.options;
  struct Option {
    const char* name;
    bool given;
    bool PresetInfo::*has;
  };
  const PresetInfo* const preset = find_preset(model.preset);
  DP_CHECK(preset != nullptr, model.preset);
  const bool softmax = options.loss == "softmax_cross_entropy";
  // A preset without a choice may be given the loss that it has.
  const bool own_loss = !preset->has_loss && options.loss == preset->loss;
  const std::array all{
      Option{"dim", options.dim != 0, &PresetInfo::has_dim},
      Option{"units", !options.units.empty(), &PresetInfo::has_units},
      Option{"bins", options.bins != 0, &PresetInfo::has_bins},
      Option{"dropout", options.dropout != 0, &PresetInfo::has_dropout},
      Option{"loss", !options.loss.empty() && !own_loss, &PresetInfo::has_loss},
      Option{"classes", options.classes != 0 && !(own_loss && softmax), &PresetInfo::has_classes}};
  for (const Option& option : all) {
    if (!option.given || (*preset).*option.has) continue;
    std::string others;
    for (const PresetInfo& other : kPresets)
      if (other.*option.has) others += str(others.empty() ? "" : " or ", other.name);
    return Error{ErrorCode::kConfig,
                 str(model.preset, " does not have the option `", option.name, "`"),
                 str("model.", option.name), str("remove it, or use ", others), "DP-2106"};
  }
  if (own_loss) return {};
  const LossInfo* const loss = find_loss(options.loss);
  if (preset->classifies && loss != nullptr && loss->is_regression()) {
    return Error{ErrorCode::kConfig, str(model.preset, " can't have the loss ", options.loss),
                 "model.loss", "use linear_regression or wide_deep to predict numbers", "DP-2106"};
  }
  if (softmax && !preset->has_classes) {
    return Error{ErrorCode::kConfig, str(model.preset, " can't have the loss ", options.loss),
                 "model.loss", "use wide_deep", "DP-2106"};
  }
  if (softmax != (options.classes > 0)) {
    return Error{ErrorCode::kConfig,
                 softmax ? str(model.preset, " needs the number of classes")
                         : str("`classes` needs the loss softmax_cross_entropy"),
                 "model.classes",
                 softmax ? "for example classes = 10; the classes are numbered from 0"
                         : "set loss = \"softmax_cross_entropy\"",
                 "DP-2107"};
  }
  return {};
}

/// Returns the error for a target that is no field.
Error no_target(const Job& job, const std::string& target) {
  constexpr size_t kListed = 20;
  std::string fields;
  for (const FieldSpec& field :
       std::span(job.data.fields).first(std::min(kListed, job.data.fields.size())))
    fields += str(fields.empty() ? "" : ", ", printable(field.name));
  if (job.data.fields.size() > kListed) fields += ", ...";
  return Error{ErrorCode::kConfig,
               job.model.options.target.empty()
                   ? std::string("no field is named `label`, and the job names no target")
                   : str("the preset's target `", target, "` is not a field"),
               "model.target",
               str("name the field to predict, model.target = \"NAME\" or --target NAME; the "
                   "fields are ",
                   fields),
               "DP-2107"};
}

Result<void> expand_preset(Job& job) {
  ModelSpec& model = job.model;
  const PresetOptions& options = model.options;
  DP_TRY_VOID(check_options(model));
  std::string target = options.target.empty() ? "label" : options.target;
  if (job.data.find_field(target) == nullptr) {
    const LossInfo* const given = find_loss(options.loss);
    if (given != nullptr && given->compares && !job.data.negatives.given())
      return no_negatives(*given, "model.loss");
    if (!job.data.negatives.given() || !options.target.empty()) return no_target(job, target);
    target.clear();  // each record is a positive
  }
  if (!options.weights.empty() && job.data.find_field(options.weights) == nullptr) {
    return Error{ErrorCode::kConfig, str("the weights `", options.weights, "` are not a field"),
                 "model.weights", "set the field of the records' weights", "DP-2107"};
  }
  DP_TRY(const Inputs inputs, preset_inputs(job, target));
  OutputSpec output;
  output.target = target;
  output.weights = options.weights;
  if (model.preset == "wide_deep" || model.preset == "deepfm") {
    DP_TRY_VOID(wide_deep(job, inputs, output));
  } else if (model.preset == "dcn_v2") {
    DP_TRY_VOID(dcn_v2(job, inputs, output));
  } else if (model.preset == "dlrm") {
    DP_TRY_VOID(dlrm(job, inputs, output));
  } else if (model.preset == "factorization_machine") {
    DP_TRY_VOID(factorization_machine(job, inputs, output));
  } else if (model.preset == "matrix_factorization") {
    DP_TRY_VOID(matrix_factorization(job, inputs, output));
  } else {
    const bool softmax = model.preset == "softmax_mlp";
    LayerSpec layer;
    layer.name = free_name(job.data, softmax ? "mlp" : "linear");
    layer.type = softmax ? "dense" : "linear";
    layer.inputs = inputs.all;
    if (softmax) {
      if (options.units.empty()) {
        return Error{
            ErrorCode::kConfig, "softmax_mlp needs the widths of its layers", "model.units",
            "for example units = [128, 10]; the last one is the number of classes", "DP-2107"};
      }
      layer.units = options.units;
      layer.activation = "relu";
      layer.dropout = options.dropout;
    }
    if (options.classes > 0 && !softmax) layer.units = {options.classes};
    set_output(job, layer.name, output);
    model.layers.push_back(std::move(layer));
    if (!softmax) set_linear_optimizer(job);
  }
  const LossInfo& loss = *find_loss(output.loss);
  output.offset = options.offset.value_or(Learned{.open = loss.is_regression()});
  output.scale = options.scale.value_or(loss.has_scale ? Learned{.open = true} : Learned{1.0F});
  output.label_smoothing = options.label_smoothing;
  if (options.label_smoothing > 0 && !loss.has_smoothing) {
    return Error{ErrorCode::kConfig, str("the loss ", output.loss, " has no label_smoothing"),
                 "model.label_smoothing",
                 "remove it; logistic and softmax_cross_entropy have smoothed labels", "DP-2107"};
  }
  output.delta = options.delta;
  output.quantile = options.quantile;
  model.outputs = {std::move(output)};
  return {};
}

/// Returns true if a target has one column. `target` is null if no field has that name; validate()
/// rejects the job later.
bool has_one_column(const FieldSpec* target) {
  return target == nullptr ||
         std::ranges::all_of(number_shape(*target), [](int64_t n) { return n == 1; });
}

}  // namespace

Result<void> complete_job(Job& job) {
  DP_TRY_VOID(complete_data(job.data));
  if (job.model.layers.empty() && !job.model.preset.empty()) DP_TRY_VOID(expand_preset(job));
  for (size_t i = 0; i < job.model.layers.size(); ++i) {
    if (auto done = expand_runs(job.model.layers[i].inputs, job.data.columns); !done) {
      done.error().where = str("model.layers[", i, "].inputs");
      return std::move(done).error();
    }
  }
  for (size_t i = 0; i < job.model.variables.size(); ++i) {
    if (auto done = expand_runs(job.model.variables[i].fields, job.data.columns); !done) {
      done.error().where = str("model.variables[", i, "].fields");
      return std::move(done).error();
    }
  }
  for (OutputSpec& output : job.model.outputs) {
    if (output.metrics.empty())
      output.metrics =
          default_metrics(output.loss, has_one_column(job.data.find_field(output.target)));
  }
  job.model.options = {};
  // Fixed when the job is first completed, because another number of workers must not change the
  // streams. A replica reads one stream.
  if (job.data.sharding != Sharding::kAuto && job.data.streams == 0) {
    job.data.streams = uint32_t(job.train.replicas.value_or(std::max(1U, job.cluster.workers)));
  }
  return validate(job);
}

}  // namespace downpour
