#include "shared/job/validate_model.h"

#include <set>
#include <string>
#include <vector>

#include "shared/base/names.h"
#include "shared/job/field_output.h"
#include "shared/job/layers.h"
#include "shared/job/metric_names.h"
#include "shared/job/validate_negatives.h"
#include "shared/job/validate_slices.h"
#include "shared/job/validate_support.h"

namespace downpour {
namespace {

struct Names {
  std::vector<std::string> fields, layers;
};

/// Checks a layer that reads the rows of an earlier layer.
Result<void> check_rows_of(const Job& job, const LayerSpec& layer, const std::string& where,
                           const Names& names) {
  const LayerSpec* owner = nullptr;
  std::vector<std::string> known = {"shared", "by_field"};
  for (size_t i = 0; i < names.layers.size(); ++i) {  // the layers before this one
    const LayerSpec& earlier = job.model.layers[i];
    const LayerInfo* type = find_layer_type(earlier.type);
    if (type == nullptr || !type->has_rows) continue;
    known.push_back(earlier.name);
    if (earlier.name == layer.table) owner = &earlier;
  }
  if (owner == nullptr) {
    return unknown_name("earlier embedding or fm layer", layer.table, where + ".table", known);
  }
  if (layer.dim != owner->dim) {
    return wrong(str("layer `", layer.name, "` has dim ", layer.dim, ", but the rows of `",
                     owner->name, "` have dim ", owner->dim),
                 where + ".dim", str("set dim = ", owner->dim, ", or delete `table`"));
  }
  for (const std::string& input : layer.inputs) {
    if (contains(owner->inputs, input)) continue;
    return wrong(str("layer `", layer.name, "` can't read the rows of `", owner->name, "` for `",
                     input, "`, which `", owner->name, "` does not read"),
                 where + ".inputs", str("add `", input, "` to the inputs of `", owner->name, "`"));
  }
  if (layer.init) {
    return wrong(
        str("layer `", layer.name, "` has an init, but its rows are those of `", owner->name, "`"),
        where + ".init", str("set init of `", owner->name, "`"));
  }
  return {};
}

Result<void> check_layer(const Job& job, const LayerSpec& layer, const std::string& where,
                         const Names& names) {
  const LayerInfo* found = find_layer_type(layer.type);
  const LayerInfo type = found != nullptr ? *found : LayerInfo{};
  const auto need = [&](bool good, const char* key, const char* what,
                        const char* hint) -> Result<void> {
    if (good) return {};
    return wrong(str("layer `", layer.name, "` ", what), where + key, hint, "DP-2107");
  };
  if (layer.name.empty() || !can_be_named(layer.name) ||
      layer.name.find('*') != std::string::npos) {
    return wrong(str("a layer can't have the name `", layer.name, "`"), where + ".name",
                 "for example name = \"tower\"");
  }
  if (contains(names.layers, layer.name)) {
    return wrong(str("two layers are named `", layer.name, "`"), where + ".name",
                 "give each a unique name", "DP-2108");
  }
  DP_TRY_VOID(need(!layer.type.empty(), ".type", "has no type", "for example type = \"dense\""));
  DP_TRY_VOID(need(!layer.inputs.empty(), ".inputs", "has no inputs",
                   "set inputs = [\"NAME\", ...] with names of fields or earlier layers"));
  DP_TRY_VOID(need(!(type.has_rows || type.has_vectors) || layer.dim > 0, ".dim", "has no dim",
                   "for example dim = 16"));
  DP_TRY_VOID(need(!type.needs_units || !layer.units.empty(), ".units", "has no units",
                   "for example units = [64, 32, 1]"));
  DP_TRY_VOID(
      need(!type.has_bins || layer.bins > 0, ".bins", "has no bins", "for example bins = 16"));
  DP_TRY_VOID(need(!type.has_rate || layer.dropout > 0, ".rate", "has no rate above 0",
                   "for example rate = 0.1"));
  DP_TRY_VOID(need(!type.needs_units || layer.dropout == 0 || layer.units.size() > 1, ".dropout",
                   "has a dropout, which applies between its sublayers, and has only one sublayer",
                   "add a layer of type dropout that reads it, or remove the key"));
  for (const std::string& input : layer.inputs) {
    const bool is_field = contains(names.fields, input), is_layer = contains(names.layers, input);
    if (!is_field && !is_layer) {
      std::vector<std::string> known = names.fields;
      known.insert(known.end(), names.layers.begin(), names.layers.end());
      return unknown_name("field or earlier layer", input, where + ".inputs", known);
    }
    if (is_field && is_layer) {
      return wrong(str("`", input, "` is the name of a field and of a layer"), where + ".inputs",
                   "rename the layer", "DP-2108");
    }
    const bool sparse = is_field && is_sparse(*job.data.find_field(input));
    if (sparse && !type.reads_keys) {
      return wrong(
          str("layer `", layer.name, "` (", layer.type, ") can't read the keys of `", input, "`"),
          where + ".inputs", "add an embedding layer that reads it");
    }
    if (!sparse && !type.reads_numbers) {
      return wrong(
          str("the ", type.type, " `", layer.name, "` needs keys, and `", input, "` gives numbers"),
          where + ".inputs",
          "use a string field, an int64 field with { op = \"identity\" } or \"hash\", or a bag");
    }
  }
  if (const std::string* name = first_repeated(layer.inputs)) {
    return wrong(str("layer `", layer.name, "` reads `", *name, "` twice"), where + ".inputs",
                 "list each input once", "DP-2108");
  }
  if (type.has_rows && layer.rows_of() != nullptr) return check_rows_of(job, layer, where, names);
  return {};
}

/// Checks a variable of a model without layers.
Result<void> check_variable(const Job& job, const ModelVariable& variable, const std::string& where,
                            const Names& names) {
  if (!can_be_named(variable.name) || variable.name.find('*') != std::string::npos) {
    return wrong(str("a variable can't have the name `", variable.name, "`"), where + ".name",
                 "for example name = \"user\"");
  }
  if (variable.fields.empty() == variable.shape.empty()) {
    return wrong(str("variable `", variable.name, "` needs either fields or a shape"), where,
                 "set fields = [\"user_id\"] and dim = 16 for rows under keys, or shape = [64, 32]",
                 "DP-2107");
  }
  if (variable.fields.empty() != (variable.dim == 0)) {
    return variable.dim == 0
               ? wrong(str("variable `", variable.name, "` has no dim"), where + ".dim",
                       "for example dim = 16", "DP-2107")
               : wrong(str("variable `", variable.name, "` has a shape and a dim"), where + ".dim",
                       "remove dim: it is the length of the rows of keys");
  }
  for (const std::string& name : variable.fields) {
    const FieldSpec* field = job.data.find_field(name);
    if (field == nullptr) return unknown_name("field", name, where + ".fields", names.fields);
    if (!is_sparse(*field)) {
      return wrong(
          str("variable `", variable.name, "` has rows for keys, and `", name, "` gives numbers"),
          where + ".fields",
          "use a string field, or an int64 field with { op = \"identity\" } or \"hash\"; "
          "the program reads numbers from the batch");
    }
  }
  if (const std::string* name = first_repeated(variable.fields)) {
    return wrong(str("variable `", variable.name, "` lists `", *name, "` twice"), where + ".fields",
                 "list each field once", "DP-2108");
  }
  return {};
}

/// Checks that names are unique. Layers, outputs and fields share one namespace. Exception: an
/// output may have the name of its own layer.
Result<void> check_clashes(const Job& job, const Names& names) {
  std::set<std::string> own;
  for (const OutputSpec& output : job.model.outputs) {
    if (output.name == output.input) own.insert(output.name);
  }
  for (size_t i = 0; i < names.layers.size(); ++i) {
    if (!contains(names.fields, names.layers[i])) continue;
    return wrong(str("`", names.layers[i], "` is the name of a field and of a layer"),
                 str("model.layers[", i, "].name"), "rename the layer", "DP-2108");
  }
  for (size_t i = 0; i < job.model.outputs.size(); ++i) {
    const std::string& name = job.model.outputs[i].name;
    if (own.contains(name)) continue;
    if (!contains(names.fields, name) && !contains(names.layers, name)) continue;
    return wrong(str("the output's name `", name, "` is already the name of a field or layer"),
                 str("model.outputs[", i, "].name"),
                 "rename the output; it may have the name of its own input layer", "DP-2108");
  }
  return {};
}

/// Returns whether the layer, or one that it reads from, reads the field.
bool reads(const ModelSpec& model, const std::string& layer, const std::string& field) {
  std::set<std::string> read = {layer};
  for (auto one = model.layers.rbegin(); one != model.layers.rend(); ++one)
    if (read.contains(one->name)) read.insert(one->inputs.begin(), one->inputs.end());
  return read.contains(field);
}

Result<void> check_output(const Job& job, const OutputSpec& output, const std::string& where,
                          const Names& names) {
  if (!can_be_named(output.name)) {
    return wrong("an output has no name", where + ".name", "for example name = \"click\"",
                 "DP-2107");
  }
  if (output.loss.empty()) {
    return wrong(str("output `", output.name, "` has no loss"), where + ".loss",
                 "for example loss = \"logistic\", \"softmax_cross_entropy\" or \"squared\"",
                 "DP-2107");
  }
  const LossInfo& loss = *find_loss(output.loss);  // the reader knows all names
  if (job.model.is_custom() && !output.input.empty()) {
    return wrong(str("output `", output.name, "` has an input, but the model has no layers"),
                 where + ".input", "remove it: the program gives the predictions of the output");
  }
  if (job.model.is_custom() && (output.offset != Learned{0.0F} || output.scale != Learned{1.0F})) {
    return wrong(
        str("output `", output.name, "` has an offset or a scale, but the model has no layers"),
        where + ".offset", "remove it: the program gives complete predictions");
  }
  if (!job.model.is_custom() && output.width > 0) {
    return wrong(str("output `", output.name, "` has a width, but its layer has one already"),
                 where + ".width", "remove it; it is for models with model.variables");
  }
  if (!job.model.is_custom() && !contains(names.layers, output.input)) {
    return unknown_name("layer", output.input, where + ".input", names.layers);
  }
  if (output.scale != Learned{1.0F} && !loss.has_scale) {
    return wrong(str("output `", output.name, "` has a scale, and its loss is ", output.loss),
                 where + ".scale", "remove it; only the losses of numbers have a scale", "DP-2107");
  }
  if (output.label_smoothing > 0 && (!loss.has_smoothing || job.model.is_custom())) {
    return wrong(str("output `", output.name, "` has label_smoothing, ",
                     loss.has_smoothing ? "but the model has no layers"
                                        : str("and its loss is ", output.loss)),
                 where + ".label_smoothing",
                 loss.has_smoothing
                     ? "remove it: the program computes the gradients"
                     : "remove it; logistic and softmax_cross_entropy have smoothed labels",
                 "DP-2107");
  }
  if (output.offset != Learned{0.0F} && !loss.has_offset) {
    return wrong(str("output `", output.name, "` has an offset, and its loss is ", output.loss),
                 where + ".offset",
                 loss.compares
                     ? "remove it; the same offset for a record and its negatives changes nothing"
                     : "remove it; the same offset for all classes changes nothing",
                 "DP-2107");
  }
  for (const auto& [key, name] :
       {std::pair{".target", output.target}, {".weights", output.weights}}) {
    const bool optional = std::string_view(key) == ".weights" || job.data.negatives.given();
    if (name.empty() && optional) continue;
    const FieldSpec* field = job.data.find_field(name);
    if (field == nullptr) return unknown_name("field", name, where + key, names.fields);
    if (is_sparse(*field)) {
      return wrong(
          str("output `", output.name, "` needs numbers, and `", name, "` gives keys"), where + key,
          "for a label that is a string, set classes = [\"...\", \"...\"] in its field, or "
          "positive = [\"...\"]");
    }
  }
  // An autoencoder predicts numbers that it reads.
  if (!loss.is_regression() && reads(job.model, output.input, output.target)) {
    return wrong(
        str("output `", output.name, "` predicts `", output.target, "`, which its layers read"),
        where + ".target",
        str("remove `", output.target, "` from the inputs of the layers: a model that ",
            "reads its target predicts nothing"),
        "DP-2107");
  }
  const FieldSpec* const target = job.data.find_field(output.target);  // null with data.negatives
  const size_t classes = target == nullptr ? 0 : target->classes.size();
  if (loss.target == TargetType::kBinary && classes > 2) {
    return wrong(
        str("output `", output.name, "` has the loss ", output.loss, ", and its target `",
            output.target, "` has ", classes, " classes"),
        where + ".loss",
        "set loss = \"softmax_cross_entropy\", or in the field positive = [\"...\"] in place "
        "of classes",
        "DP-2107");
  }
  for (const std::string& metric : output.metrics) {
    if (!contains(selectable_metrics(output.loss), metric)) {
      return unknown_name(str("metric of a ", output.loss, " output").c_str(), metric,
                          where + ".metrics", selectable_metrics(output.loss));
    }
  }
  return {};
}

}  // namespace

Result<void> check_custom(const Job& job) {
  const ModelSpec& model = job.model;
  if (!model.is_custom()) return {};
  PresetOptions options = model.options;
  options.own_optimizer = options.own_reduction = false;
  if (!model.preset.empty() || !model.layers.empty() || options != PresetOptions{}) {
    return wrong("`variables` can't be combined with layers, a preset or its options",
                 "model.variables",
                 "keep either the variables, whose gradients a program computes, or the layers");
  }
  const ModeTraits& mode = traits_of(job.train.mode);
  if (mode.has_rounds || mode.has_groups) {
    return wrong(str("mode \"", mode.name, "\" needs a model of layers"), "train.mode",
                 "set train.mode = \"async\", \"bounded\" or \"sync\" for model.variables");
  }
  return {};
}

Result<void> validate_model(const Job& job) {
  Names names;
  for (const FieldSpec& field : job.data.fields) names.fields.push_back(field.name);
  for (size_t i = 0; i < job.model.layers.size(); ++i) {
    DP_TRY_VOID(check_layer(job, job.model.layers[i], str("model.layers[", i, "]"), names));
    names.layers.push_back(job.model.layers[i].name);
  }
  std::vector<std::string> variables;
  for (size_t i = 0; i < job.model.variables.size(); ++i) {
    const ModelVariable& variable = job.model.variables[i];
    DP_TRY_VOID(check_variable(job, variable, str("model.variables[", i, "]"), names));
    variables.push_back(variable.name);
  }
  if (const std::string* name = first_repeated(variables)) {
    return wrong(str("two variables are named `", *name, "`"), "model.variables",
                 "give each a unique name", "DP-2108");
  }
  if (job.model.outputs.empty()) {
    return wrong("the model has no outputs", "model.outputs",
                 "for example model.outputs = [{ name = \"click\", input = \"logit\", loss = "
                 "\"logistic\", target = \"label\" }]",
                 "DP-2107");
  }
  std::vector<std::string> outputs;
  for (size_t i = 0; i < job.model.outputs.size(); ++i) {
    DP_TRY_VOID(check_output(job, job.model.outputs[i], str("model.outputs[", i, "]"), names));
    outputs.push_back(job.model.outputs[i].name);
  }
  if (const std::string* name = first_repeated(outputs)) {
    return wrong(str("two outputs are named `", *name, "`"), "model.outputs",
                 "give each a unique name", "DP-2108");
  }
  DP_TRY_VOID(check_clashes(job, names));
  DP_TRY_VOID(check_negatives(job));
  return check_slices(job);
}

}  // namespace downpour
