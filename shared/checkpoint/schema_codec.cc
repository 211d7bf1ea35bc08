#include "shared/checkpoint/schema_codec.h"

#include <algorithm>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <cstring>
#include <exception>
#include <kj/exception.h>

#include "shared/checkpoint/schema_tables.h"
#include "shared/wire/copy_counts.h"

namespace downpour::checkpoint {
namespace {

constexpr int kNestingMax = 16;

std::vector<uint8_t> flat_bytes(capnp::MessageBuilder& builder) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const kj::ArrayPtr<const kj::byte> bytes = words.asBytes();
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

/// Calls `decode(root)` on a message and converts the exceptions of Cap'n Proto to an Error.
template <typename Root, typename Decode>
auto with_message(std::span<const uint8_t> bytes, Decode&& decode)
    -> decltype(decode(typename Root::Reader{})) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return Error{ErrorCode::kBadData, str("a message of ", bytes.size(),
                                          " bytes, which is not a multiple of the word size")};
  }
  const size_t words = bytes.size() / sizeof(capnp::word);
  kj::Array<capnp::word> aligned = kj::heapArray<capnp::word>(words);
  std::memcpy(aligned.asBytes().begin(), bytes.data(), bytes.size());
  capnp::ReaderOptions options;
  // enough to read each field once; also bounds the lengths of lists
  options.traversalLimitInWords = 2 * words + 64;
  options.nestingLimit = kNestingMax;
  try {
    capnp::FlatArrayMessageReader reader(aligned, options);
    if (reader.getEnd() != aligned.end()) {
      return Error{ErrorCode::kBadData, str((aligned.end() - reader.getEnd()) * sizeof(capnp::word),
                                            " bytes after the message")};
    }
    return decode(reader.getRoot<Root>());
  } catch (const kj::Exception& exception) {
    return Error{ErrorCode::kBadData,
                 str("not a valid message: ", exception.getDescription().cStr())};
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kBadData, str("not a valid message: ", exception.what())};
  }
}

// ---- roots ----

wire::ImageRef read_image_ref(schema::ImageRef::Reader in) {
  return {.partition = PartitionId(in.getPartition()),
          .file = text_of(in.getFile()),
          .offset = in.getOffset(),
          .bytes = in.getBytes(),
          .checksum = in.getChecksum()};
}

void write_image_ref(const wire::ImageRef& ref, schema::ImageRef::Builder out) {
  out.setPartition(raw(ref.partition));
  out.setFile(text(ref.file));
  out.setOffset(ref.offset);
  out.setBytes(ref.bytes);
  out.setChecksum(ref.checksum);
}

Result<Manifest> read_manifest(schema::Manifest::Reader in) {
  Manifest manifest;
  manifest.id = {in.getTerm(), in.getN()};
  manifest.run = in.getRun();
  manifest.plan_hash = in.getPlanHash();
  manifest.job = text_of(in.getJob());
  manifest.partitions = in.getPartitions();
  for (const auto table : in.getTables()) {
    DP_TRY(TableSpec spec, read_table(table));
    manifest.tables.push_back(std::move(spec));
  }
  for (const auto image : in.getImages()) manifest.images.push_back(read_image_ref(image));
  manifest.completed_epochs = in.getCompletedEpochs();
  manifest.sealed_epochs = in.getSealedEpochs();
  for (const auto epoch : in.getEpochs()) {
    manifest.epochs.push_back({epoch.getEpoch(), epoch.getShards(),
                               wire::read_counts(epoch.getCounts()), text_of(epoch.getSummary())});
  }
  manifest.rows = in.getRows();
  manifest.build = text_of(in.getBuild());
  manifest.created_unix_s = in.getCreatedUnixSeconds();
  return manifest;
}

Result<PartitionImage> read_state(schema::PartitionState::Reader in) {
  PartitionImage image;
  image.partition = PartitionId(in.getPartition());
  image.version = in.getVersion();
  image.sealed_epochs = in.getSealedEpochs();
  image.plan_hash = in.getPlanHash();
  image.steps_before = in.getStepsBefore();
  for (const auto state : in.getEpochs()) {
    EpochImage epoch;
    epoch.epoch = state.getEpoch();
    epoch.shards_ended = state.getShardsEnded();
    epoch.counts = wire::read_counts(state.getCounts());
    epoch.records_hash = state.getRecordsHash();
    for (const auto sums : state.getMetrics()) epoch.metrics.push_back(wire::read_sums(sums));
    for (const auto ended : state.getEnded())
      epoch.ended.push_back({ended.getBegin(), ended.getEnd()});
    image.epochs.push_back(std::move(epoch));
  }
  for (const auto state : in.getShards()) {
    ShardImage shard;
    shard.shard = {state.getEpoch(), state.getShard()};
    shard.watermark = state.getWatermark();
    shard.ended = state.getEnded();
    shard.records = state.getRecords();
    shard.records_hash = state.getRecordsHash();
    shard.counts = wire::read_counts(state.getCounts());
    image.shards.push_back(shard);
  }
  return image;
}

Result<std::vector<wire::QuarantineMarker>> read_markers(schema::QuarantineMarkers::Reader in) {
  std::vector<wire::QuarantineMarker> markers;
  for (const auto line : in.getMarkers()) {
    const BatchId batch{line.getEpoch(), line.getShard(), line.getBatch()};
    if (!markers.empty() && batch <= markers.back().batch) {
      return Error{ErrorCode::kBadData, "quarantined batches are not ascending"};
    }
    markers.push_back({batch, line.getWithdrawn(), line.getHad()});
  }
  if (markers.empty())
    return Error{ErrorCode::kBadData, "the list of quarantined batches is empty"};
  return markers;
}

Result<RunFile> read_run_body(schema::Run::Reader in) {
  RunFile run{.id = in.getId(),
              .plan_hash = in.getPlanHash(),
              .fingerprint = in.getFingerprint(),
              .job = text_of(in.getJob()),
              .build = text_of(in.getBuild()),
              .created_unix_s = in.getCreatedUnixSeconds()};
  if (in.getFiles().size() > kRunDataFilesMax) {
    return Error{ErrorCode::kBadData, str(in.getFiles().size(), " data files")};
  }
  for (const auto file : in.getFiles()) {
    run.files.push_back({text_of(file.getPath()), file.getBytes(), file.getFingerprint()});
  }
  return run;
}

/// Each base builds on the one before it, and the image of a partition builds on its last base.
Result<Manifest> read_chained_manifest(schema::ChainedManifest::Reader in) {
  DP_TRY(Manifest manifest, read_manifest(in.getManifest()));
  for (const auto base : in.getBases()) {
    wire::ImageRef ref = read_image_ref(base.getImage());
    ref.checkpoint = {base.getTerm(), base.getN()};
    const bool follows =
        !manifest.bases.empty() && manifest.bases.back().partition == ref.partition;
    if (follows) ref.base = manifest.bases.back().checksum;
    if (raw(ref.partition) < manifest.images.size()) {
      manifest.images[raw(ref.partition)].base = ref.checksum;
    }
    manifest.bases.push_back(std::move(ref));
  }
  return manifest;
}

Result<Manifest> read_placed_manifest(schema::PlacedManifest::Reader in) {
  DP_TRY(Manifest manifest, read_chained_manifest(in.getChained()));
  const auto terms = in.getGenerationTerms();
  const auto ns = in.getGenerationNs();
  if (terms.size() != ns.size()) {
    return Error{ErrorCode::kBadData, "the lists of ownership generations have different lengths"};
  }
  for (uint32_t p = 0; p < terms.size(); ++p)
    manifest.ownership_generations.push_back({terms[p], ns[p]});
  manifest.given = {in.getGivenTerm(), in.getGivenN()};
  manifest.best = {in.getBestTerm(), in.getBestN()};
  return manifest;
}

void write_manifest(const Manifest& manifest, schema::Manifest::Builder out) {
  out.setTerm(manifest.id.term);
  out.setN(manifest.id.n);
  out.setRun(manifest.run);
  out.setPlanHash(manifest.plan_hash);
  out.setJob(text(manifest.job));
  out.setPartitions(manifest.partitions);
  auto tables = out.initTables(unsigned(manifest.tables.size()));
  for (unsigned t = 0; t < tables.size(); ++t) write_table(manifest.tables[t], tables[t]);
  auto images = out.initImages(unsigned(manifest.images.size()));
  for (unsigned i = 0; i < images.size(); ++i) {
    write_image_ref(manifest.images[i], images[i]);
  }
  out.setCompletedEpochs(manifest.completed_epochs);
  out.setSealedEpochs(manifest.sealed_epochs);
  auto epochs = out.initEpochs(unsigned(manifest.epochs.size()));
  for (unsigned e = 0; e < epochs.size(); ++e) {
    epochs[e].setEpoch(manifest.epochs[e].epoch);
    epochs[e].setShards(manifest.epochs[e].shards);
    wire::write_counts(manifest.epochs[e].counts, epochs[e].initCounts());
    epochs[e].setSummary(text(manifest.epochs[e].summary));
  }
  out.setRows(manifest.rows);
  out.setBuild(text(manifest.build));
  out.setCreatedUnixSeconds(manifest.created_unix_s);
}

void write_chained_manifest(const Manifest& manifest, schema::ChainedManifest::Builder out) {
  write_manifest(manifest, out.initManifest());
  auto bases = out.initBases(unsigned(manifest.bases.size()));
  for (unsigned i = 0; i < bases.size(); ++i) {
    const wire::ImageRef& ref = manifest.bases[i];
    bases[i].setTerm(ref.checkpoint.term);
    bases[i].setN(ref.checkpoint.n);
    write_image_ref(ref, bases[i].initImage());
  }
}

}  // namespace

std::vector<uint8_t> encode_manifest_body(const Manifest& manifest) {
  capnp::MallocMessageBuilder builder;
  write_manifest(manifest, builder.initRoot<schema::Manifest>());
  return flat_bytes(builder);
}

std::vector<uint8_t> encode_chained_manifest_body(const Manifest& manifest) {
  capnp::MallocMessageBuilder builder;
  write_chained_manifest(manifest, builder.initRoot<schema::ChainedManifest>());
  return flat_bytes(builder);
}

std::vector<uint8_t> encode_placed_manifest_body(const Manifest& manifest) {
  capnp::MallocMessageBuilder builder;
  auto out = builder.initRoot<schema::PlacedManifest>();
  write_chained_manifest(manifest, out.initChained());
  auto terms = out.initGenerationTerms(unsigned(manifest.ownership_generations.size()));
  auto ns = out.initGenerationNs(unsigned(manifest.ownership_generations.size()));
  for (unsigned p = 0; p < terms.size(); ++p) {
    terms.set(p, manifest.ownership_generations[p].term);
    ns.set(p, manifest.ownership_generations[p].n);
  }
  out.setGivenTerm(manifest.given.term);
  out.setGivenN(manifest.given.n);
  out.setBestTerm(manifest.best.term);
  out.setBestN(manifest.best.n);
  return flat_bytes(builder);
}

Result<Manifest> decode_chained_manifest_body(std::span<const uint8_t> bytes) {
  return with_message<schema::ChainedManifest>(bytes, read_chained_manifest);
}

Result<Manifest> decode_placed_manifest_body(std::span<const uint8_t> bytes) {
  return with_message<schema::PlacedManifest>(bytes, read_placed_manifest);
}

Result<Manifest> decode_manifest_body(std::span<const uint8_t> bytes) {
  return with_message<schema::Manifest>(bytes, read_manifest);
}

std::vector<uint8_t> encode_run_body(const RunFile& run) {
  capnp::MallocMessageBuilder builder;
  auto out = builder.initRoot<schema::Run>();
  out.setId(run.id);
  out.setPlanHash(run.plan_hash);
  out.setFingerprint(run.fingerprint);
  out.setJob(text(run.job));
  out.setBuild(text(run.build));
  out.setCreatedUnixSeconds(run.created_unix_s);
  auto files = out.initFiles(unsigned(std::min(run.files.size(), kRunDataFilesMax)));
  for (unsigned i = 0; i < files.size(); ++i) {
    files[i].setPath(text(run.files[i].path));
    files[i].setBytes(run.files[i].bytes);
    files[i].setFingerprint(run.files[i].fingerprint);
  }
  return flat_bytes(builder);
}

Result<RunFile> decode_run_body(std::span<const uint8_t> bytes) {
  return with_message<schema::Run>(bytes, read_run_body);
}

std::vector<uint8_t> encode_state(const PartitionImage& image) {
  capnp::MallocMessageBuilder builder;
  auto out = builder.initRoot<schema::PartitionState>();
  out.setPartition(raw(image.partition));
  out.setVersion(image.version);
  out.setSealedEpochs(image.sealed_epochs);
  out.setPlanHash(image.plan_hash);
  out.setStepsBefore(image.steps_before);
  auto epochs = out.initEpochs(unsigned(image.epochs.size()));
  for (unsigned e = 0; e < epochs.size(); ++e) {
    const EpochImage& epoch = image.epochs[e];
    epochs[e].setEpoch(epoch.epoch);
    epochs[e].setShardsEnded(epoch.shards_ended);
    wire::write_counts(epoch.counts, epochs[e].initCounts());
    epochs[e].setRecordsHash(epoch.records_hash);
    auto metrics = epochs[e].initMetrics(unsigned(epoch.metrics.size()));
    for (unsigned i = 0; i < metrics.size(); ++i) wire::write_sums(epoch.metrics[i], metrics[i]);
    auto ended = epochs[e].initEnded(unsigned(epoch.ended.size()));
    for (unsigned i = 0; i < ended.size(); ++i) {
      ended[i].setBegin(epoch.ended[i].begin);
      ended[i].setEnd(epoch.ended[i].end);
    }
  }
  auto shards = out.initShards(unsigned(image.shards.size()));
  for (unsigned s = 0; s < shards.size(); ++s) {
    const ShardImage& shard = image.shards[s];
    shards[s].setEpoch(shard.shard.epoch);
    shards[s].setShard(shard.shard.shard);
    shards[s].setWatermark(shard.watermark);
    shards[s].setEnded(shard.ended);
    shards[s].setRecords(shard.records);
    shards[s].setRecordsHash(shard.records_hash);
    wire::write_counts(shard.counts, shards[s].initCounts());
  }
  return flat_bytes(builder);
}

std::vector<uint8_t> encode_markers(const std::vector<wire::QuarantineMarker>& markers) {
  capnp::MallocMessageBuilder builder;
  auto out = builder.initRoot<schema::QuarantineMarkers>().initMarkers(unsigned(markers.size()));
  for (unsigned i = 0; i < out.size(); ++i) {
    out[i].setEpoch(markers[i].batch.epoch);
    out[i].setShard(markers[i].batch.shard);
    out[i].setBatch(markers[i].batch.batch);
    out[i].setWithdrawn(markers[i].withdrawn);
    out[i].setHad(markers[i].had);
  }
  return flat_bytes(builder);
}

Result<std::vector<wire::QuarantineMarker>> decode_markers(std::span<const uint8_t> bytes) {
  return with_message<schema::QuarantineMarkers>(bytes, read_markers);
}

Result<PartitionImage> decode_state(std::span<const uint8_t> bytes) {
  return with_message<schema::PartitionState>(bytes, read_state);
}

}  // namespace downpour::checkpoint
