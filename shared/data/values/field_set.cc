#include "shared/data/values/field_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "shared/data/values/declared_fields.h"
#include "shared/job/field_output.h"

namespace downpour::data {
namespace {

/// Returns the spec without the ops that RecordStage applies.
FieldSpec early_part(const FieldSpec& spec) {
  FieldSpec early = spec;
  early.transform.resize(PostParseOps::begin_of(spec));
  return early;
}

/// Returns whether the field's value is the length of its list.
bool counts_values(const FieldSpec& spec) {
  return std::ranges::any_of(spec.transform, [](const TransformSpec& op) {
    const auto* const pool = std::get_if<ops::Pool>(&op);
    return pool != nullptr && pool->how == "count";
  });
}

class Builder {
 public:
  Builder(const FieldContext& context, const FieldSet::Resolve& resolve)
      : context_(context), resolve_(resolve) {}

  Result<FieldSet> run() {
    for (uint32_t i = 0; i < context_.layout.floats.size(); ++i) DP_TRY_VOID(add_floats(i));
    for (const BagInput& input : context_.layout.bags) {
      DP_TRY(const uint32_t entry, entry_of(input.field));
      set_.key_of_bag.push_back(entry);
    }
    defer_hashes();
    if (!stage_->empty()) set_.stage = std::move(stage_);
    return std::move(set_);
  }

 private:
  Result<void> add_floats(uint32_t column) {
    const FloatInput& input = context_.layout.floats[column];
    DP_TRY(const FieldSpec spec, resolve_(input.field, input.width));
    const TargetRule* const rule = find_target(context_, input.field);
    const bool late = PostParseOps::begin_of(spec) < spec.transform.size();
    if (late && rule != nullptr && rule->kind != TargetKind::kAny) {
      return field_error(spec,
                         "is a class target, which does not allow ops for lists or random ops",
                         "remove these ops from its transform");
    }
    if (spec.is_bag() && !is_sparse(spec) && late) {
      if (spec.fallback && counts_values(spec)) {
        return field_error(spec, "counts its values, so its `default` would count as a value",
                           "remove `default`: the count of an empty list is 0");
      }
      DP_TRY(KeyField field, KeyField::make_list(context_, early_part(spec)));
      const uint32_t entry = add_entry({}, {.bag = true, .values = true});
      stage_->add_list(spec, entry, column, input.width);
      set_.keys.push_back({spec, std::move(field), entry});
      return {};
    }
    DP_TRY(FloatField field, FloatField::make(context_.data, early_part(spec), rule, input.width));
    stage_->add_floats(spec, column, input.width);
    if (!late) {
      if (auto ops = field.defer_ops()) set_.deferred.floats.push_back({column, std::move(*ops)});
    }
    set_.floats.push_back({spec, std::move(field), column});
    return {};
  }

  /// Defers the hashes of keys that RecordStage does not read.
  void defer_hashes() {
    for (FieldSet::Keys& keys : set_.keys) {
      const bool late = PostParseOps::begin_of(keys.spec) < keys.spec.transform.size();
      if (late || crossed_.contains(keys.entry)) continue;
      if (const auto hash = keys.field.defer_hash())
        set_.deferred.keys.push_back({keys.entry, *hash});
    }
  }

  uint32_t add_entry(const std::string& name, KeyShape shape) {
    names_.push_back(name);
    set_.key_shapes.push_back(shape);
    return uint32_t(names_.size() - 1);
  }

  Result<uint32_t> entry_of(const std::string& name) {
    const auto known = std::find(names_.begin(), names_.end(), name);
    if (known != names_.end()) return uint32_t(known - names_.begin());
    DP_TRY(const FieldSpec spec, resolve_(name, 0));
    if (is_cross(spec)) return add_cross(spec);
    DP_TRY(KeyField field, KeyField::make(context_, early_part(spec)));
    const uint32_t entry = add_entry(name, {.bag = field.is_bag(), .values = field.is_number()});
    stage_->add_keys(spec, entry);
    set_.keys.push_back({spec, std::move(field), entry});
    return entry;
  }

  Result<uint32_t> add_cross(const FieldSpec& spec) {
    std::vector<uint32_t> inputs;
    bool bag = spec.transform.size() > 1;
    for (const std::string& name : std::get<ops::Cross>(spec.transform[0]).fields) {
      DP_TRY(const FieldSpec input, resolve_(name, 0));
      if (is_cross(input) || !is_sparse(input))
        return field_error(spec, str("crosses ", name, ", which does not give keys"),
                           "use bucketize to turn numbers into keys; instead of a cross, list the "
                           "fields that it crosses");
      DP_TRY(const uint32_t entry, entry_of(name));
      inputs.push_back(entry);
      crossed_.insert(entry);
      bag |= set_.key_shapes[entry].bag;
    }
    const uint32_t entry = add_entry(spec.name, {.bag = bag});
    stage_->add_cross(spec, entry, std::move(inputs), bag);
    return entry;
  }

  const FieldContext& context_;
  const FieldSet::Resolve& resolve_;
  FieldSet set_;
  std::vector<std::string> names_;  // of the entries; empty for a list of numbers
  std::set<uint32_t> crossed_;      // entries that are inputs of crosses
  std::unique_ptr<RecordStage> stage_ = std::make_unique<RecordStage>();
};

}  // namespace

Result<FieldSet> FieldSet::make(const FieldContext& context, const Resolve& resolve) {
  return Builder(context, resolve).run();
}

Result<FieldSet> FieldSet::make(const FieldContext& context) {
  return make(context,
              [&](const std::string& name, uint32_t) { return resolve_field(context, name); });
}

}  // namespace downpour::data
