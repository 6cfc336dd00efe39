#include "strata/pjrt/event.h"

#include <utility>

#include "strata/pjrt/c_api.h"

namespace strata::pjrt {

Event::Event(std::shared_ptr<const Plugin> plugin, PJRT_Event* handle)
    : plugin_(std::move(plugin)), handle_(handle) {}

Event::Event(Event&& other) noexcept
    : plugin_(std::move(other.plugin_)), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  Event taken(std::move(other));  // so that what was held here goes at once
  std::swap(plugin_, taken.plugin_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ == nullptr) return;
  auto args = zeroed<PJRT_Event_Destroy_Args>();
  args.event = handle_;
  call_quietly(*plugin_, &PJRT_Api::PJRT_Event_Destroy, args);
}

bool Event::ready() const {
  if (handle_ == nullptr) return true;
  auto args = zeroed<PJRT_Event_IsReady_Args>();
  args.event = handle_;
  call(*plugin_, &PJRT_Api::PJRT_Event_IsReady, args);
  return args.is_ready;
}

void Event::wait() const {
  if (handle_ == nullptr) return;
  auto args = zeroed<PJRT_Event_Await_Args>();
  args.event = handle_;
  call(*plugin_, &PJRT_Api::PJRT_Event_Await, args);
}

}  // namespace strata::pjrt
