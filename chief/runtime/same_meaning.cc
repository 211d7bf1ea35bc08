#include "chief/runtime/same_meaning.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shared/base/error_text.h"
#include "shared/data/formats/file_sample.h"
#include "shared/data/values/vocabulary.h"
#include "shared/job/field_output.h"
#include "shared/job/resume.h"

namespace downpour::chief {
namespace {

/// Returns the `vocabulary` ops of a field.
std::vector<const ops::Vocabulary*> vocabularies_of(const FieldSpec& field) {
  std::vector<const ops::Vocabulary*> found;
  for (const TransformSpec& op : field.transform) {
    if (const auto* const one = std::get_if<ops::Vocabulary>(&op)) found.push_back(one);
  }
  return found;
}

Error vocabulary_error(const FieldSpec& field, const ops::Vocabulary& now, std::string what) {
  const bool listed = now.file.empty();
  return Error{ErrorCode::kConfig,
               str("the vocabulary of `", field.name, "` has changed: ", what,
                   ", but its line numbers are the keys of the model's rows"),
               listed ? str("data.fields.", field.name, ".transform") : now.file,
               str("restore the ", listed ? "words" : "file",
                   " and add new words only at the end, or start a new run without the old rows"),
               "DP-2110"};
}

/// Checks that a vocabulary begins with the words that it had. If the words are in a file, the job
/// stores only their number and their hash.
Result<void> check_vocabulary(const FieldSpec& field, const ops::Vocabulary& was,
                              const ops::Vocabulary& now) {
  uint64_t size = was.size, fingerprint = was.fingerprint;
  if (was.file.empty()) {
    DP_TRY(const auto words, data::Vocabulary::of(was.words));
    size = words->size(), fingerprint = words->fingerprint();
  }
  if (fingerprint == 0 || (!now.file.empty() && now.fingerprint == fingerprint)) return {};
  DP_TRY(const auto vocabulary,
         now.file.empty() ? data::Vocabulary::of(now.words) : data::Vocabulary::load(now.file));
  if (vocabulary->size() < size) {
    return vocabulary_error(field, now,
                            str("it had ", size, " words and has ", vocabulary->size(), " now"));
  }
  std::vector<std::string> first;
  for (uint64_t i = 0; i < size; ++i) {
    first.emplace_back(vocabulary->word(i));
    if (!was.file.empty() || first[i] == was.words[i]) continue;
    return vocabulary_error(field, now,
                            str("word ", i + 1, " was \"", printable(was.words[i]), "\" and is \"",
                                printable(first[i]), "\" now"));
  }
  DP_TRY(const auto same, data::Vocabulary::of(first));
  if (same->fingerprint() == fingerprint) return {};
  return vocabulary_error(field, now, str("its first ", size, " words are not those of before"));
}

/// Returns the inputs of a layer whose order decides what its variables mean: those that the layer
/// reads one after the other. Rows of a sum are found by their keys.
std::vector<std::string> ordered_inputs(const Job& job, const LayerSpec& layer) {
  if (layer.type == "fm" || layer.type == "add") return {};
  std::vector<std::string> inputs = layer.inputs;
  if (layer.type != "linear") return inputs;
  std::erase_if(inputs, [&](const std::string& name) {
    const FieldSpec* const field = job.data.find_field(name);
    return field != nullptr && is_sparse(*field);
  });
  return inputs;
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += str(text.empty() ? "" : ", ", printable(name));
  return str('[', text, ']');
}

/// Returns the number that a label reads for a text: of its lists, or without lists the text
/// itself. Nothing if the label does not say.
std::optional<double> reading_of(const FieldSpec& label, const std::string& text) {
  if (!label.classes.empty()) {
    const auto found = std::ranges::find(label.classes, text);
    if (found == label.classes.end()) return std::nullopt;
    return double(found - label.classes.begin());
  }
  if (!label.positive.empty()) return double(std::ranges::count(label.positive, text) > 0);
  double number = 0;
  return data::number_of(text, number) ? std::optional(number) : std::nullopt;
}

/// Returns true if of two texts one label reads the first as the larger one, and the other label
/// the second.
bool reverse_order(const FieldSpec& one, const FieldSpec& other) {
  std::set<std::string> texts = {"0", "1"};
  for (const FieldSpec* label : {&one, &other}) {
    texts.insert(label->classes.begin(), label->classes.end());
    texts.insert(label->positive.begin(), label->positive.end());
  }
  std::vector<std::pair<double, double>> read;
  for (const std::string& text : texts) {
    const auto a = reading_of(one, text), b = reading_of(other, text);
    if (a && b) read.emplace_back(*a, *b);
  }
  std::ranges::sort(read);
  return !std::ranges::is_sorted(read, {}, &std::pair<double, double>::second);
}

/// Returns the key by which a label reads texts as numbers.
std::string label_text(const FieldSpec& label) {
  if (!label.classes.empty()) return "read by classes = " + list_text(label.classes);
  if (!label.positive.empty()) return "read by positive = " + list_text(label.positive);
  return "a number";
}

constexpr const char* kLabelHint =
    "give this field the value of the other run: the variables predict by it";

Error other_meaning(const std::string& what, const std::string& was, const std::string& now,
                    const char* hint) {
  return Error{ErrorCode::kConfig,
               str(what, " is ", was, " in the other run, but ", now, " in this job"),
               "train.warm_start", hint, "DP-2110"};
}

}  // namespace

Result<void> check_vocabularies(const Job& was, const Job& now) {
  for (const FieldSpec& field : now.data.fields) {
    const FieldSpec* const before = was.data.find_field(field.name);
    if (before == nullptr) continue;
    const auto had = vocabularies_of(*before), has = vocabularies_of(field);
    for (size_t i = 0; i < std::min(had.size(), has.size()); ++i)
      DP_TRY_VOID(check_vocabulary(field, *had[i], *has[i]));
  }
  return {};
}

Result<void> check_meaning(const Job& was, const Job& now) {
  DP_TRY_VOID(check_vocabularies(was, now));
  for (const FrozenDifference& one : frozen_differences(was, now, /*epoch_open=*/false)) {
    const bool decides = one.key.ends_with(".classes") || one.key.ends_with(".positive");
    if (!decides || one.was == "(none)" || one.now == "(none)") continue;
    return other_meaning(str('`', one.key, '`'), one.was, one.now, kLabelHint);
  }
  for (const FieldSpec& field : now.data.fields) {
    const FieldSpec* const before = was.data.find_field(field.name);
    if (before == nullptr || !reverse_order(*before, field)) continue;
    return other_meaning(str("the label `", field.name, '`'), label_text(*before),
                         label_text(field), kLabelHint);
  }
  for (const LayerSpec& layer : now.model.layers) {
    const auto before = std::ranges::find(was.model.layers, layer.name, &LayerSpec::name);
    if (before == was.model.layers.end()) continue;
    const auto had = ordered_inputs(was, *before), has = ordered_inputs(now, layer);
    if (had == has) continue;
    return other_meaning(
        str("`inputs` of layer `", layer.name, '`'), list_text(had), list_text(has),
        "name the inputs in the order of the other run: `model.inputs` with a preset, "
        "otherwise `inputs` of the layer");
  }
  return {};
}

Result<void> check_tables(const std::vector<TableSpec>& was, const std::vector<TableSpec>& now) {
  for (size_t t = 0; t < std::max(was.size(), now.size()); ++t) {
    const std::string had = t < was.size() ? was[t].name : "(none)";
    const std::string has = t < now.size() ? now[t].name : "(none)";
    if (had == has) continue;
    return Error{
        ErrorCode::kConfig,
        str("the checkpoint has the table `", had, "`, and the model has `", has, "`"), "",
        "another version of Downpour has trained it, whose keys mean other rows: train the "
        "model again",
        "DP-2110"};
  }
  return {};
}

}  // namespace downpour::chief
