#include "chief/runtime/chief_node.h"

#include <utility>

#include "chief/runtime/history.h"
#include "chief/runtime/history_file.h"
#include "chief/runtime/publish.h"
#include "chief/runtime/run_setup.h"
#include "shared/base/version.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/run_file.h"
#include "shared/job/job_file.h"

namespace downpour::chief {
namespace {

constexpr int64_t kTickNs = 50 * kMillisecond;
constexpr int64_t kLookForNewerNs = kSecond;
constexpr int64_t kEventsAgainNs = kSecond;  // pause after a failed write of the event file

/// Returns true for messages that any process can cause at any rate and asks for again if they are
/// lost. They are not queued for a peer that does not read.
bool is_courtesy(const wire::Body& body) {
  return std::holds_alternative<wire::Reject>(body) || std::holds_alternative<wire::Refused>(body);
}

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

}  // namespace

ChiefNode::ChiefNode(transport::Transport& transport, Storage& storage, ChiefConfig config,
                     std::vector<TableSpec> tables, ChiefOptions options, Console* console,
                     std::unique_ptr<Background> background)
    : transport_(transport),
      outbox_(transport),
      storage_(storage),
      options_(std::move(options)),
      job_text_(config.job_text),
      run_(config.run),
      term_(config.mode == wire::Purpose::kTrain ? config.term : 0),
      plan_hash_(config.plan_hash),
      keep_(config.job.train.checkpoint.keep),
      tables_(std::move(tables)),
      core_(std::move(config)),
      console_(console),
      background_(background != nullptr
                      ? std::move(background)
                      : std::make_unique<BackgroundThread>([this] { transport_.wake(); })) {}

Result<void> ChiefNode::start(int64_t now_ns) {
  DP_TRY(port_, transport_.bind(options_.endpoint));
  if (!options_.events_path.empty()) {
    DP_TRY(events_, storage_.open_append(options_.events_path));
  }
  Effects effects;
  core_.on_start(now_ns, effects);
  run(now_ns, std::move(effects));
  return {};
}

void ChiefNode::on_message(int64_t now_ns, transport::PortId, transport::PeerId peer,
                           wire::Message&& message) {
  Effects effects;
  core_.on_message(now_ns, PeerKey{raw(peer)}, std::move(message), effects,
                   transport_.identity(peer));
  run(now_ns, std::move(effects));
}

void ChiefNode::on_malformed(int64_t, transport::PortId, transport::PeerId, const Error& error) {
  if (console_ != nullptr)
    console_->show(
        Notice{NoticeLevel::kWarning, str("message dropped at ", error.where, ": ", error.what)});
}

bool ChiefNode::pump(int64_t now_ns) {
  now_ns_ = now_ns;
  const bool published = background_->run_completions();
  if (finish_) {
    outbox_.drain(now_ns);
    return false;
  }
  outbox_.flush();
  Effects effects;
  if (options_.stop_signal != nullptr && !stop_asked_) {
    if (const int signal = options_.stop_signal->load(std::memory_order_relaxed); signal != 0) {
      stop_asked_ = true;
      core_.request_stop(now_ns, signal, effects);
    }
  }
  if (options_.watch) {
    if (auto watched = options_.watch(); !watched)
      core_.on_fatal(now_ns, std::move(watched).error(), effects);
  }
  if (options_.ended_processes) {
    for (const EndedProcess& ended : options_.ended_processes())
      core_.on_process_ended(now_ns, ended, effects);
  }
  look_for_newer_chief(now_ns, effects);
  core_.on_tick(now_ns, effects);
  next_tick_ns_ = now_ns + kTickNs;
  run(now_ns, std::move(effects));
  return published;
}

int64_t ChiefNode::next_deadline_ns() const { return next_tick_ns_; }

void ChiefNode::run(int64_t now_ns, Effects&& effects) {
  std::vector<Effect> more;
  for (Effect& effect : effects) {
    std::visit(Overloaded{
                   [&](Send& send) {
                     const transport::PeerId peer{raw(send.peer)};
                     const auto sent = is_courtesy(send.message.body)
                                           ? transport_.send(peer, std::move(send.message))
                                           : outbox_.send(peer, std::move(send.message));
                     if (sent == transport::SendStatus::kGone)
                       core_.on_peer_gone(now_ns, send.peer, more);
                   },
                   [&](FindOlder& find) { core_.on_older(now_ns, find_older(find.below), more); },
                   [&](PublishManifest& manifest) { publish(std::move(manifest)); },
                   [&](AppendEvent& event) { record(now_ns, std::move(event.line)); },
                   [&](PredictionBatch& batch) {
                     if (options_.on_prediction) options_.on_prediction(batch);
                   },
                   [&](Finish& finish) {
                     if (events_) (void)events_->commit();
                     finish_ = std::move(finish);
                   },
                   [&](ProgressSnapshot& progress) {
                     if (options_.on_progress) options_.on_progress(progress);
                     if (console_ != nullptr) console_->show(progress);
                   },
                   [&](auto& shown) {
                     if (console_ != nullptr) console_->show(shown);
                   },
               },
               effect);
  }
  if (!more.empty()) run(now_ns, std::move(more));
}

// A chief that takes a term of this run creates a file. Messages do not prove it, because any
// process can claim a term.
void ChiefNode::look_for_newer_chief(int64_t now_ns, Effects& effects) {
  if (term_ == 0 || now_ns < look_for_newer_ns_) return;
  look_for_newer_ns_ = now_ns + kLookForNewerNs;
  const auto highest = checkpoint::highest_term(storage_, options_.run_dir);
  if (highest && *highest > term_) core_.on_newer_term(now_ns, *highest, effects);
}

// Events are for information only. If they cannot be written (a full disk), training continues
// without them, and recording resumes when there is space.
void ChiefNode::record(int64_t now_ns, std::string line) {
  if (options_.events_path.empty()) return;
  if (!events_ && now_ns < events_again_ns_) {
    ++events_lost_;
    return;
  }
  const auto append = [&]() -> Result<void> {
    if (!events_) {
      DP_TRY(events_, storage_.open_append(options_.events_path));
      line = str("{\"event\":\"events_lost\",\"lines\":", events_lost_, "}\n", line);
    }
    return events_->append(as_bytes(line += '\n'));
  };
  auto written = append();
  if (written) {
    events_lost_ = 0;
    return;
  }
  if (events_lost_++ == 0 && console_ != nullptr) {
    console_->show(Notice{
        NoticeLevel::kWarning,
        str("events can't be written: ", written.error().what, " (", written.error().where, ")")});
  }
  events_.reset();
  events_again_ns_ = now_ns + kEventsAgainNs;
}

void ChiefNode::publish(PublishManifest&& publish) {
  auto manifest = std::make_shared<checkpoint::Manifest>();
  manifest->id = publish.checkpoint;
  manifest->run = run_;
  manifest->plan_hash = plan_hash_;
  manifest->job = job_text_;
  manifest->partitions = uint32_t(publish.images.size());
  manifest->tables = tables_;
  manifest->images = std::move(publish.images);
  manifest->bases = std::move(publish.bases);
  manifest->ownership_generations = std::move(publish.ownership_generations);
  manifest->given = publish.given;
  manifest->best = publish.best;
  manifest->completed_epochs = manifest->sealed_epochs = publish.sealed_epochs;
  manifest->rows = publish.rows;
  manifest->build = kBuildVersion;
  manifest->created_unix_s = options_.unix_time_s();
  std::vector<HistoryLine> lines;
  if (options_.keeps_history) {
    if (const auto job = job_from_toml(job_text_, options_.run_dir))
      lines = history_lines(*job, publish.epochs, publish.evaluations);
  }
  // Another start of the run may have another schedule.
  for (size_t i = 0; i < lines.size(); ++i) {
    publish.epochs[i].learning_rate = lines[i].learning_rate;
    publish.epochs[i].steps_counted = lines[i].steps_counted;
  }
  manifest->epochs = to_records(publish.epochs, publish.evaluations);
  background_->start([this, manifest, lines = std::move(lines)]() -> Background::Completion {
    Result<void> removed, recorded;
    Result<void> published =
        publish_checkpoint(storage_, options_.run_dir, *manifest, keep_, removed);
    // The lines are those of a published checkpoint, so a chief that resumes from it has them, too.
    if (published && options_.keeps_history)
      recorded = write_history(storage_, options_.run_dir, lines);
    return [this, id = manifest->id, published = std::move(published), removed = std::move(removed),
            recorded = std::move(recorded)]() mutable {
      if (!removed && console_ != nullptr) {
        console_->show(Notice{NoticeLevel::kWarning, str("an old checkpoint could not be removed: ",
                                                         removed.error().what)});
      }
      if (!recorded && console_ != nullptr) {
        console_->show(Notice{NoticeLevel::kWarning, history_warning(recorded.error())});
      }
      Effects effects;
      if (!published) {  // perhaps because of a newer chief
        look_for_newer_ns_ = now_ns_;
        look_for_newer_chief(now_ns_, effects);
      }
      core_.on_published(now_ns_, id, std::move(published), effects);
      run(now_ns_, std::move(effects));
    };
  });
}

Result<ResumeState> ChiefNode::find_older(ViewId below) {
  DP_TRY(const Job job, job_from_toml(job_text_, options_.run_dir));
  if (term_ == 0) {
    // While a run trains, it removes checkpoints and publishes newer ones.
    const auto newer = checkpoint::load_model(storage_, options_.run_dir, nullptr);
    if (newer && newer->run == run_ && newer->id > below)
      return resume_from(storage_, options_.run_dir, *newer, job);
  }
  for (;;) {
    std::vector<std::string> skipped;
    DP_TRY(const checkpoint::Manifest manifest,
           checkpoint::load_latest(storage_, options_.run_dir, &skipped, 0, below));
    if (manifest.run != run_) {
      return Error{ErrorCode::kBadData, "an older checkpoint in this folder belongs to another run",
                   options_.run_dir};
    }
    if (fits_plan(manifest, plan_hash_, term_ == 0 ? nullptr : &job, options_.run_dir)) {
      return resume_from(storage_, options_.run_dir, manifest, job);
    }
    below = manifest.id;  // it holds a part of an epoch of another plan, or of another mode
  }
}

}  // namespace downpour::chief
