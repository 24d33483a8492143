"""Takes memory until the limit ends it, or 512 MiB at the most."""

held = []
for step in range(32):
    held.append(bytearray(b"x" * (16 << 20)))
    print(f"{(step + 1) * 16} MiB", flush=True)
raise SystemExit("no limit stopped this")
