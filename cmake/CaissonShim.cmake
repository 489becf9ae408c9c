# Run as a script: writes the header that tells the assembler where the shim program is, and holds its hash, so that
# whoever caches compilations by their headers sees a new shim.
file(SHA256 "${SHIM}" hash)
file(WRITE "${HEADER}" "// Generated: the shim with SHA-256 ${hash}.\n#define CAISSON_SHIM_PATH \"${SHIM}\"\n")
