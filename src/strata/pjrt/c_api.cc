#include "strata/pjrt/c_api.h"

#include <array>
#include <string>

#include "strata/base/error.h"

namespace strata::pjrt {
namespace {

constexpr std::array<std::string_view, 118> kSlotNames = {
    "PJRT_Error_Destroy",
    "PJRT_Error_Message",
    "PJRT_Error_GetCode",
    "PJRT_Plugin_Initialize",
    "PJRT_Plugin_Attributes",
    "PJRT_Event_Destroy",
    "PJRT_Event_IsReady",
    "PJRT_Event_Error",
    "PJRT_Event_Await",
    "PJRT_Event_OnReady",
    "PJRT_Client_Create",
    "PJRT_Client_Destroy",
    "PJRT_Client_PlatformName",
    "PJRT_Client_ProcessIndex",
    "PJRT_Client_PlatformVersion",
    "PJRT_Client_Devices",
    "PJRT_Client_AddressableDevices",
    "PJRT_Client_LookupDevice",
    "PJRT_Client_LookupAddressableDevice",
    "PJRT_Client_AddressableMemories",
    "PJRT_Client_Compile",
    "PJRT_Client_DefaultDeviceAssignment",
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_DeviceDescription_Id",
    "PJRT_DeviceDescription_ProcessIndex",
    "PJRT_DeviceDescription_Attributes",
    "PJRT_DeviceDescription_Kind",
    "PJRT_DeviceDescription_DebugString",
    "PJRT_DeviceDescription_ToString",
    "PJRT_Device_GetDescription",
    "PJRT_Device_IsAddressable",
    "PJRT_Device_LocalHardwareId",
    "PJRT_Device_AddressableMemories",
    "PJRT_Device_DefaultMemory",
    "PJRT_Device_MemoryStats",
    "PJRT_Memory_Id",
    "PJRT_Memory_Kind",
    "PJRT_Memory_DebugString",
    "PJRT_Memory_ToString",
    "PJRT_Memory_AddressableByDevices",
    "PJRT_Executable_Destroy",
    "PJRT_Executable_Name",
    "PJRT_Executable_NumReplicas",
    "PJRT_Executable_NumPartitions",
    "PJRT_Executable_NumOutputs",
    "PJRT_Executable_SizeOfGeneratedCodeInBytes",
    "PJRT_Executable_GetCostAnalysis",
    "PJRT_Executable_OutputMemoryKinds",
    "PJRT_Executable_OptimizedProgram",
    "PJRT_Executable_Serialize",
    "PJRT_LoadedExecutable_Destroy",
    "PJRT_LoadedExecutable_GetExecutable",
    "PJRT_LoadedExecutable_AddressableDevices",
    "PJRT_LoadedExecutable_Delete",
    "PJRT_LoadedExecutable_IsDeleted",
    "PJRT_LoadedExecutable_Execute",
    "PJRT_Executable_DeserializeAndLoad",
    "PJRT_LoadedExecutable_Fingerprint",
    "PJRT_Buffer_Destroy",
    "PJRT_Buffer_ElementType",
    "PJRT_Buffer_Dimensions",
    "PJRT_Buffer_UnpaddedDimensions",
    "PJRT_Buffer_DynamicDimensionIndices",
    "PJRT_Buffer_GetMemoryLayout",
    "PJRT_Buffer_OnDeviceSizeInBytes",
    "PJRT_Buffer_Device",
    "PJRT_Buffer_Memory",
    "PJRT_Buffer_Delete",
    "PJRT_Buffer_IsDeleted",
    "PJRT_Buffer_CopyToDevice",
    "PJRT_Buffer_ToHostBuffer",
    "PJRT_Buffer_IsOnCpu",
    "PJRT_Buffer_ReadyEvent",
    "PJRT_Buffer_UnsafePointer",
    "PJRT_Buffer_IncreaseExternalReferenceCount",
    "PJRT_Buffer_DecreaseExternalReferenceCount",
    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
    "PJRT_CopyToDeviceStream_Destroy",
    "PJRT_CopyToDeviceStream_AddChunk",
    "PJRT_CopyToDeviceStream_TotalBytes",
    "PJRT_CopyToDeviceStream_GranuleSize",
    "PJRT_CopyToDeviceStream_CurrentBytes",
    "PJRT_TopologyDescription_Create",
    "PJRT_TopologyDescription_Destroy",
    "PJRT_TopologyDescription_PlatformName",
    "PJRT_TopologyDescription_PlatformVersion",
    "PJRT_TopologyDescription_GetDeviceDescriptions",
    "PJRT_TopologyDescription_Serialize",
    "PJRT_TopologyDescription_Attributes",
    "PJRT_Compile",
    "PJRT_Executable_OutputElementTypes",
    "PJRT_Executable_OutputDimensions",
    "PJRT_Buffer_CopyToMemory",
    "PJRT_Client_CreateViewOfDeviceBuffer",
    "PJRT_Executable_Fingerprint",
    "PJRT_Client_TopologyDescription",
    "PJRT_Executable_GetCompiledMemoryStats",
    "PJRT_Memory_Kind_Id",
    "PJRT_ExecuteContext_Create",
    "PJRT_ExecuteContext_Destroy",
    "PJRT_Buffer_CopyRawToHost",
    "PJRT_AsyncHostToDeviceTransferManager_Destroy",
    "PJRT_AsyncHostToDeviceTransferManager_TransferData",
    "PJRT_Client_CreateBuffersForAsyncHostToDevice",
    "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer",
    "PJRT_AsyncHostToDeviceTransferManager_Device",
    "PJRT_AsyncHostToDeviceTransferManager_BufferCount",
    "PJRT_AsyncHostToDeviceTransferManager_BufferSize",
    "PJRT_AsyncHostToDeviceTransferManager_SetBufferError",
    "PJRT_AsyncHostToDeviceTransferManager_AddMetadata",
    "PJRT_Client_DmaMap",
    "PJRT_Client_DmaUnmap",
    "PJRT_Client_CreateUninitializedBuffer",
    "PJRT_Client_UpdateGlobalProcessInfo",
    "PJRT_TopologyDescription_Deserialize",
    "PJRT_Client_CreateAliasBuffer",
    "PJRT_Client_FulfillAliasBuffer",
    "PJRT_LoadedExecutable_GetDeviceAssignment",
};
static_assert(kFirstSlot + kSlotNames.size() * sizeof(void*) == size_t{PJRT_Api_STRUCT_SIZE},
              "pjrt_c_api.h declares other slots than the list above");

std::string slot_name(size_t offset) {
  size_t index = (offset - kFirstSlot) / sizeof(void*);
  if (offset < kFirstSlot || index >= kSlotNames.size()) return "slot " + std::to_string(offset);
  return std::string(kSlotNames[index]);
}

}  // namespace

std::span<const std::string_view> slot_names() { return kSlotNames; }

bool has_slot(const Plugin& plugin, size_t offset) {
  const PJRT_Api* api = plugin.api();
  if (offset + sizeof(void*) > api->struct_size) return false;
  void* function = nullptr;
  std::memcpy(&function, reinterpret_cast<const std::byte*>(api) + offset, sizeof(function));
  return function != nullptr;
}

void fail_missing_slot(const Plugin& plugin, size_t offset) {
  unimplemented({.id = "pjrt.missing_slot",
                 .where = "plug-in " + plugin.name(),
                 .expected = "the function " + slot_name(offset) + " (byte " +
                             std::to_string(offset) + " of the PJRT table)",
                 .got = "a table of API version " + plugin.version_text() + " with " +
                        std::to_string(plugin.api()->struct_size) + " bytes that lacks it",
                 .cure = "Use a newer plug-in"});
}

void throw_error(const Plugin& plugin, PJRT_Error* error, size_t offset) {
  auto message = zeroed<PJRT_Error_Message_Args>();
  message.error = error;
  plugin.api()->PJRT_Error_Message(&message);
  std::string text(message.message, message.message_size);
  auto code = zeroed<PJRT_Error_GetCode_Args>();
  code.error = error;
  discard_error(plugin, plugin.api()->PJRT_Error_GetCode(&code));
  discard_error(plugin, error);
  int number = number_of(code.code);
  bool known = number >= static_cast<int>(Code::cancelled) &&
               number <= static_cast<int>(Code::unauthenticated);
  fail({.id = "pjrt.call",
        .where = slot_name(offset) + " of plug-in " + plugin.name(),
        .expected = "success",
        .got = text,
        .code = known ? static_cast<Code>(number) : Code::unknown});
}

void discard_error(const Plugin& plugin, PJRT_Error* error) noexcept {
  if (error == nullptr) return;
  auto args = zeroed<PJRT_Error_Destroy_Args>();
  args.error = error;
  plugin.api()->PJRT_Error_Destroy(&args);
}

namespace {

struct TypePair {
  DType dtype;
  PJRT_Buffer_Type type;
};

constexpr std::array<TypePair, 16> kTypes = {{
    {DType::pred, PJRT_Buffer_Type_PRED},
    {DType::i8, PJRT_Buffer_Type_S8},
    {DType::i16, PJRT_Buffer_Type_S16},
    {DType::i32, PJRT_Buffer_Type_S32},
    {DType::i64, PJRT_Buffer_Type_S64},
    {DType::u8, PJRT_Buffer_Type_U8},
    {DType::u16, PJRT_Buffer_Type_U16},
    {DType::u32, PJRT_Buffer_Type_U32},
    {DType::u64, PJRT_Buffer_Type_U64},
    {DType::f8e4m3fn, PJRT_Buffer_Type_F8E4M3FN},
    {DType::f8e5m2, PJRT_Buffer_Type_F8E5M2},
    {DType::f8e8m0fnu, PJRT_Buffer_Type_F8E8M0FNU},
    {DType::f16, PJRT_Buffer_Type_F16},
    {DType::bf16, PJRT_Buffer_Type_BF16},
    {DType::f32, PJRT_Buffer_Type_F32},
    {DType::f64, PJRT_Buffer_Type_F64},
}};

}  // namespace

PJRT_Buffer_Type to_pjrt(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.type;
  }
  return PJRT_Buffer_Type_INVALID;
}

DType to_dtype(int type) {
  for (const TypePair& pair : kTypes) {
    if (pair.type == type) return pair.dtype;
  }
  unimplemented({.id = "pjrt.element_type",
                 .where = "a buffer or result of the plug-in",
                 .expected = "an element type that Strata knows",
                 .got = "PJRT_Buffer_Type " + std::to_string(type)});
}

}  // namespace strata::pjrt
