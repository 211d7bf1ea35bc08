// plan_hash: literal hashes. They must never change, because a run can only be resumed with a plan
// of the same hash. The values of enums are part of them.
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/str.h"
#include "shared/data/reading/read_plan.h"

namespace downpour::data {
namespace {

using Change = std::function<void(ReadPlan&)>;

uint64_t hash_after(const Change& change) {
  ReadPlan plan;
  plan.data.format = DataFormat::kCsv;
  plan.data.fields = {{.name = "label"}, {.name = "word", .type = FieldType::kString}};
  plan.files = {{.path = "/data/train", .bytes = 100, .fingerprint = 7}};
  plan.layout.floats = {{"label", 1}};
  plan.layout.bags = {{"word", 0}};
  plan.targets = {{"label", TargetKind::kBinary, 2}};
  std::vector<plan::ShardRange> shards = {{.file = 0, .begin = 0, .end = 100}};
  change(plan);
  return plan_hash(plan, shards);
}

Change with_format(DataFormat format) {
  return [=](ReadPlan& plan) { plan.data.format = format; };
}
Change with_op(TransformSpec op) {
  return [=](ReadPlan& plan) { plan.data.fields[1].transform = {op}; };
}
template <typename T>
Change with_data(T DataSpec::*member, T value) {
  return [=](ReadPlan& plan) { plan.data.*member = value; };
}

struct Case {
  const char* name;
  Change change;
  uint64_t hash;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"libsvm", with_format(DataFormat::kLibsvm), 16901245326657278379U},
      {"csv", with_format(DataFormat::kCsv), 9101631683639358337U},
      {"tsv", with_format(DataFormat::kTsv), 7459466374893808620U},
      {"criteo", with_format(DataFormat::kCriteo), 16040587485345017849U},
      {"mnist", with_format(DataFormat::kMnist), 143931499601752824U},
      {"tfrecord", with_format(DataFormat::kTfrecord), 13283229191204437704U},
      {"npy", with_format(DataFormat::kNpy), 17770845582252888163U},
      {"npz", with_format(DataFormat::kNpz), 9547475272382819752U},
      {"jsonl", with_format(DataFormat::kJsonl), 1467622677747803025U},
      {"libffm", with_format(DataFormat::kLibffm), 3996436463844318026U},
      {"hash", with_op(ops::Hash{.buckets = 16}), 18001682543765808659U},
      {"hash of integers", with_op(ops::Hash{.integers = true}), 16608236651611022331U},
      {"log1p", with_op(ops::Log1p{}), 1500480773849125526U},
      {"clip", with_op(ops::Clip{.min = 0.5, .max = 2}), 18084575198700532973U},
      {"identity", with_op(ops::Identity{.buckets = 9, .fallback = 3}),
       8715240413168464371U},
      {"standardize", with_op(ops::Standardize{.mean = 1.5, .scale = 4}),
       13507060234055632041U},
      {"min_max", with_op(ops::MinMax{.min = -1, .max = 1}), 3714060037553130388U},
      {"bucketize", with_op(ops::Bucketize{.boundaries = {1, 2.5}}), 649830064782831404U},
      {"vocabulary",
       with_op(ops::Vocabulary{.words = {"a", "b"}, .unknown = UnknownWord::kDrop}),
       11729657599129645383U},
      {"vocabulary of a file",
       with_op(ops::Vocabulary{.file = "/v", .size = 3, .fingerprint = 11}),
       9793940439530708249U},
      {"tokens", with_op(ops::Tokens{.separators = ",", .lower = true, .ngrams = 2}),
       163760486141848775U},
      {"truncate", with_op(ops::Truncate{.length = 5, .keep = "last"}),
       13480072445121870864U},
      {"pad", with_op(ops::Pad{.length = 5, .value = 0.25}), 11998410527788553603U},
      {"pool", with_op(ops::Pool{.how = "max"}), 11093747546828235459U},
      {"cross", with_op(ops::Cross{.buckets = 64, .fields = {"x", "y"}}),
       13114089952755747915U},
      {"dropout", with_op(ops::Dropout{.rate = 0.1}), 16664663852640827210U},
      {"noise", with_op(ops::Noise{.stddev = 0.5}), 15342911176531714409U},
      {"crop", with_op(ops::Crop{.length = 7}), 17326175822248981543U},
      {"quantile", with_op(ops::Quantile{.boundaries = {1, 2.5}}),
       8045875723235080782U},
      {"header", with_data(&DataSpec::header, true), 8898183518456594443U},
      {"skip_lines", with_data(&DataSpec::skip_lines, 2U), 8648216693764353115U},
      {"delimiter", with_data<std::string>(&DataSpec::delimiter, ";"), 11753509712343631497U},
      {"quoted_newlines", with_data(&DataSpec::quoted_newlines, true), 9183153498379764186U},
      {"trim", with_data(&DataSpec::trim, true), 5372669615480892709U},
      {"missing", with_data<std::vector<std::string>>(&DataSpec::missing, {"?", "NA"}),
       1041204158608254242U},
      {"columns", with_data<std::vector<std::string>>(&DataSpec::columns, {"label", "word"}),
       12921012244627420025U},
      {"record", with_data<std::string>(&DataSpec::record, "tensor"), 14517616946630968249U},
      {"program", with_data<std::vector<std::string>>(&DataSpec::program, {"cat"}),
       8299957716874076666U},
      {"filter", with_data<std::string>(&DataSpec::filter, "label > 0"), 8053129440632015330U},
      {"interleave", with_data<InterleaveSpec>(&DataSpec::interleave, {.cycle = 4, .block = 2}),
       8825360343010602154U},
      {"shares", [](ReadPlan& plan) { plan.shares = 4; }, 13999704038193693207U},
      {"shuffle off", with_data<std::string>(&DataSpec::shuffle, "off"), 4787429117267442045U},
      {"shuffle 1000", with_data<std::string>(&DataSpec::shuffle, "1000"), 1270677056435670278U},
      {"bad_records", with_data(&DataSpec::bad_records, BadRecords::kSkip), 9101631683639358337U},
      {"int64", [](ReadPlan& plan) { plan.data.fields[1].type = FieldType::kInt64; },
       919581144052126799U},
      {"column", [](ReadPlan& plan) { plan.data.fields[1].column = "w"; }, 11979104687265330617U},
      {"feature", [](ReadPlan& plan) { plan.data.fields[1].feature = "w"; }, 7539668258781266310U},
      {"path", [](ReadPlan& plan) { plan.data.fields[1].path = "w"; }, 2461664583267897011U},
      {"encoding", [](ReadPlan& plan) { plan.data.fields[1].encoding = "tensor"; },
       13793799596372580330U},
      {"shape", [](ReadPlan& plan) { plan.data.fields[1].shape = {-1}; }, 7758916178008571236U},
      {"default", [](auto& plan) { plan.data.fields[1].fallback = "0"; }, 14879128620681040850U},
      {"positive", [](ReadPlan& plan) { plan.data.fields[0].positive = {"yes"}; },
       10993403822789922463U},
      {"seed", [](ReadPlan& plan) { plan.seed = 2; }, 3806955633040487050U},
      {"batch_size", [](ReadPlan& plan) { plan.batch_size = 64; }, 2076713301434072437U},
      {"drop_remainder", [](ReadPlan& plan) { plan.drop_remainder = true; }, 1579124417208905967U},
      {"batches_max", [](ReadPlan& plan) { plan.batches_max = 5; }, 4485882441655776702U},
      {"holdout", [](ReadPlan& plan) { plan.holdout = 0.1; }, 18027226968570459826U},
      {"source", [](ReadPlan& plan) { plan.source = {.skip = 1, .take = 9, .shard_count = 2}; },
       14352726014560593234U},
      {"mix",
       [](ReadPlan& plan) {
         plan.source.parts = {{.paths = 1, .weight = 0.5, .files = 1, .record_bytes = 20}};
       },
       4409734116978388526U},
      {"width", [](ReadPlan& plan) { plan.layout.floats[0].width = 3; }, 10379622747990956673U},
      {"target",
       [](ReadPlan& plan) {
         plan.targets[0] = {"label", TargetKind::kClass, 7};
       },
       44566949640255421U},
  };
  return all;
}

TEST_CASE("the hash of a plan stays the same for each format, op and option", "[data]") {
  std::string wrong;
  for (const Case& each : cases()) {
    const uint64_t hash = hash_after(each.change);
    if (hash != each.hash) wrong += str(each.name, ": ", hash, "\n");
  }
  INFO("plans with another hash, and that hash:\n" << wrong);
  CHECK(wrong.empty());
}

TEST_CASE("each setting gives a plan of its own", "[data]") {
  std::map<uint64_t, std::string> seen;
  for (const Case& each : cases()) {
    const auto [other, is_new] = seen.emplace(hash_after(each.change), each.name);
    // bad_records does not decide what a batch is; csv is the format of all cases.
    const bool same = std::string(each.name) == "bad_records";
    INFO(each.name << " has the hash of " << other->second);
    CHECK(is_new != same);
  }
}

}  // namespace
}  // namespace downpour::data
