//! The laws of `kernel/`, checked for builds with every C compiler on this machine.
//!
//! Each check is a function that returns violations as text. Each has a control, a planted offender
//! that the check must report, because a check that cannot fail proves nothing.

mod disassembly;
mod layering;
mod leftovers;
mod names;
mod opcodes;
mod precompiled;
mod section;
mod subjects;
mod symbols;
mod timing;

use std::fs;

use kiln_kbuild::{rename_implicit_calls, Built, Object, TIERS};
use subjects::{builds, default_compiler, kernel_dir, loud, Plant};

/// Applies `check` to one build per compiler, selected by `which`. Returns the violations, each
/// prefixed with the compiler's name.
fn under_every_compiler(
    which: fn(&subjects::Build) -> Option<&Built>,
    mut check: impl FnMut(&Built) -> Vec<String>,
) -> Vec<String> {
    let mut violations = Vec::new();
    let mut checked = 0;
    for build in builds() {
        // Skip builds that failed, because law 4 reports them.
        if let Some(built) = which(build) {
            checked += 1;
            violations.extend(
                check(built)
                    .into_iter()
                    .map(|v| format!("{}: {v}", build.name)),
            );
        }
    }
    assert!(checked > 0, "no compiler could build kernel/: see law 4");
    violations
}

/// Returns the build made with the compiler that the build script uses.
fn default_build() -> &'static Built {
    let path = fs::canonicalize(&default_compiler().path).expect("a compiler that was found");
    let build = builds().iter().find(|b| b.canonical == path);
    build.and_then(plain).expect("it could build kernel/")
}

fn plain(build: &subjects::Build) -> Option<&Built> {
    build.plain.as_ref().ok()
}

fn checks(build: &subjects::Build) -> Option<&Built> {
    build.checks.as_ref().ok()
}

#[track_caller]
fn assert_lawful(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

/// Checks the result of a control: `violations` must contain a report about `what`.
#[track_caller]
fn assert_caught(violations: &[String], what: &str) {
    assert!(
        violations.iter().any(|v| v.contains(what)),
        "the planted offender went unseen: nothing about {what} in {violations:?}"
    );
}

// Law 1: `kernel/` is freestanding, so it needs no library.

#[test]
fn law_1_nothing_undefined() {
    for which in [plain, checks] {
        assert_lawful(under_every_compiler(which, symbols::undefined));
    }
}

#[test]
fn law_1_no_got() {
    assert_lawful(under_every_compiler(plain, symbols::got_relocations));
}

#[test]
fn law_1_memcpy_family_does_not_call_itself() {
    assert_lawful(under_every_compiler(plain, |built| {
        built
            .objects
            .iter()
            .flat_map(|o| symbols::calls_itself(&o.path))
            .collect()
    }));
}

#[test]
fn law_1_control_libc_call() {
    let built = Plant::new("strlen.c", "strlen.c").build();
    assert_caught(&symbols::undefined(&built), "strlen");
}

#[test]
fn law_1_control_stack_protector() {
    let plant = Plant::new("stack_array.c", "stack_array.c");
    let built = plant.with(|k| k.flag("-fstack-protector-all"));
    assert_caught(&symbols::undefined(&built), "__stack_chk_fail");
}

#[test]
fn law_1_control_structure_copy_without_rename() {
    let plant = Plant::new("struct_copy.c", "struct_copy.c");
    let object = plant.compile_only();
    assert_caught(&symbols::undefined_in(&object), "memcpy");
    assert!(!symbols::undefined_in(&object)
        .iter()
        .any(|v| v.contains("kiln_memcpy")));
    rename_implicit_calls(&object).expect("objcopy renames");
    assert_eq!(
        symbols::undefined_in(&object),
        ["kiln_memcpy is undefined"],
        "which the rest of kernel/ defines"
    );
}

#[test]
fn law_1_control_got() {
    let built = Plant::new("got.c", "got.c").build();
    assert_caught(&symbols::got_relocations(&built), "GOTPCREL");
}

#[test]
fn law_1_control_memcpy_family_calls_itself() {
    let built = Plant::new("memset_recursion.c", "memset_recursion.c").build();
    assert_caught(
        &symbols::calls_itself(&built.objects[0].path),
        "kiln_memset",
    );
}

// Law 2: only SIMD objects use vector registers, and no object uses the red zone.

#[test]
fn law_2_no_vector_register_outside_simd_objects() {
    for which in [plain, checks] {
        assert_lawful(under_every_compiler(which, |built| {
            let general = built.objects.iter().filter(|o| o.simd.is_none());
            general.flat_map(disassembly::vector_use).collect()
        }));
    }
}

#[test]
fn law_2_no_red_zone() {
    assert_lawful(under_every_compiler(plain, |built| {
        let objects = built.objects.iter();
        objects.flat_map(disassembly::red_zone_use).collect()
    }));
}

/// Compiles an offender with the flags of a SIMD tier, but returns the object as if it belonged to
/// no tier.
fn misregistered(offender: &str, flag: &str) -> Object {
    let plant = Plant::new(offender, "offender_aesni.c");
    let mut object = plant.with(|k| k.flag(flag)).objects.remove(0);
    assert_eq!(object.simd.take(), Some("aesni"));
    object
}

#[test]
fn law_2_control_floating_point() {
    let object = misregistered("double_add.c", "-O2");
    assert_caught(&disassembly::vector_use(&object), "xmm");
}

#[test]
fn law_2_control_vectorised_loop() {
    let object = misregistered("loop.c", "-O3");
    assert_caught(&disassembly::vector_use(&object), "xmm");
}

#[test]
fn law_2_control_state_instructions_belong_to_fpu_and_cpu() {
    let plant = |at: &str| Plant::new("fpu_state.S", at).build().objects.remove(0);
    let outside = disassembly::vector_use(&plant("crypto/state.S"));
    for mnemonic in [
        "fxsave",
        "xsave",
        "xrstor",
        "ldmxcsr",
        "fninit",
        "vzeroupper",
    ] {
        assert_caught(&outside, mnemonic);
    }
    // vzeroupper must be reported even in these directories, because it clears parts of vector
    // registers and saves nothing.
    for at in ["fpu/state.S", "cpu/state.S"] {
        let inside = disassembly::vector_use(&plant(at));
        assert_caught(&inside, "vzeroupper");
        assert_eq!(inside.len(), 1, "{inside:?}");
    }
}

#[test]
fn law_2_control_reading_of_operands() {
    let says = |line| disassembly::names_vector_state(line, false);
    for bad in [
        "movups %xmm0,(%rdi)",
        "vpxorq (%rax,%rcx,1),%zmm31,%zmm1{%k1}{z}",
        "kmovq  %k7,%rax",
        "fadd   %st(1),%st",
        "lock movq %mm0,%rax",
        "fldl   (%rsp)",
        "emms",
        "xsave64 (%rdi)",
    ] {
        assert!(says(bad), "{bad}");
    }
    for good in [
        "call   0 <xmm_helper>",
        "lea    0x0(%rip),%rax        # 7 <table_%xmm0>",
        "mov    %fs:0x0,%rax",
        "rep stos %al,%es:(%rdi)",
        "xgetbv",
        "mov    %ss,%eax",
    ] {
        assert!(!says(good), "{good}");
    }
}

#[test]
fn law_2_control_red_zone() {
    let plant = Plant::new("red_zone.c", "red_zone.c");
    let built = plant.with(|k| k.flag("-mred-zone"));
    assert_caught(&disassembly::red_zone_use(&built.objects[0]), "(%rsp)");
    assert_lawful(disassembly::red_zone_use(&plant.build().objects[0]));
}

// Law 3: SIMD code always runs inside an FPU section.

#[test]
fn law_3_every_simd_entry_point_checks() {
    assert_lawful(under_every_compiler(checks, |built| {
        let simd = built.objects.iter().filter(|o| o.simd.is_some());
        simd.flat_map(section::unchecked_entry_points).collect()
    }));
}

#[test]
fn law_3_simd_outside_a_section_traps() {
    assert_lawful(under_every_compiler(checks, |built| {
        section::violations(&section::link(built), true)
    }));
}

#[test]
fn law_3_control_without_checks_nothing_traps() {
    // In a build without checks, the same calls must return. This shows that the check, and nothing
    // else, kills the program.
    let mut present = false;
    let violations = under_every_compiler(plain, |built| {
        let program = section::link(built);
        present |= section::list(&program).iter().any(section::Row::testable);
        section::violations(&program, false)
    });
    if present {
        assert_caught(&violations, "outside a section");
    }
}

#[test]
fn law_3_control_entry_point_that_does_not_check() {
    let built = Plant::new("double_add.c", "double_add_aesni.c").build();
    let violations = section::unchecked_entry_points(&built.objects[0]);
    assert_caught(&violations, "double_add");
}

// Law 4: `kernel/` compiles without warnings under every compiler.

#[test]
fn law_4_builds_without_warnings_under_every_compiler() {
    let mut violations = Vec::new();
    for build in builds() {
        loud(&format!("law 4: with {}: {}", build.name, build.version));
        for result in [&build.plain, &build.checks] {
            let complaints = subjects::complaints(result);
            violations.extend(complaints.iter().map(|c| format!("{}: {c}", build.name)));
        }
    }
    loud(&format!(
        "law 4: NOT FOUND: {}",
        subjects::not_found().join(" ")
    ));
    assert!(!builds().is_empty(), "no C compiler on this machine");
    assert_lawful(violations);
}

#[test]
fn law_4_control_warnings() {
    for (offender, warning) in [
        ("unused_variable.c", "unused-variable"),
        ("missing_prototype.c", "missing-prototypes"),
        ("late_declaration.c", "declaration-after-statement"),
    ] {
        let plant = Plant::new(offender, offender);
        assert_caught(&subjects::complaints(&plant.kbuild().build()), warning);
        let strict = plant.kbuild().werror(true).build();
        assert!(strict.is_err(), "-Werror let {offender} pass");
        assert_caught(&subjects::complaints(&strict), warning);
    }
}

// The build precompiles the header that declares the intrinsics. This must not change the objects.

#[test]
fn objects_are_the_same_without_precompiled_headers() {
    assert_lawful(under_every_compiler(plain, |built| {
        precompiled::changed(built, &[])
    }));
}

#[test]
fn control_objects_with_another_flag_are_not_the_same() {
    let changed = precompiled::changed(default_build(), &["-O1"]);
    assert_caught(&changed, "ciphers/");
}

// Law 5: driver names and exported symbols follow naming conventions.

#[test]
fn law_5_driver_names() {
    let tiers: Vec<String> = TIERS.tiers.iter().map(|t| t.name()).collect();
    assert_lawful(under_every_compiler(plain, |built| {
        let rows = section::list(&section::link(built));
        assert!(
            !rows.is_empty(),
            "kiln_impls() has no implementation of xts(aes)"
        );
        let named: Vec<_> = rows.iter().map(|r| (r.driver.as_str(), r.tier)).collect();
        names::driver_violations(&named, &tiers)
    }));
}

#[test]
fn law_5_exported_symbols_are_kiln_s() {
    assert_lawful(under_every_compiler(plain, symbols::misnamed_exports));
}

#[test]
fn law_5_control_driver_names() {
    let tiers: Vec<String> = TIERS.tiers.iter().map(|t| t.name()).collect();
    let tier = |suffix: &str| tiers.iter().position(|t| t == suffix).expect(suffix);
    let (generic, aesni, avx2) = (tier("generic"), tier("aesni"), tier("vaes-avx2"));
    assert_lawful(names::driver_violations(
        &[
            ("xts-aes-generic", generic),
            ("xts-aes-fixed-time", generic),
            ("xts-aes-aesni", aesni),
            ("xts-aes-vaes-avx2", avx2),
        ],
        &tiers,
    ));
    for bad in [
        ("XTS-AES-aesni", aesni),
        ("xts", generic),
        ("xts--aesni", aesni),
        ("xts-aes-", generic),
        ("xts aes-aesni", aesni),
        ("xts-aes-vaes-avx2", aesni),
        ("xts-aes-aesni", generic),
        ("xts-aes-avx2", avx2),
        ("chacha20-avx512", avx2),
        ("xts-aes-none", tiers.len()),
    ] {
        assert_caught(&names::driver_violations(&[bad], &tiers), bad.0);
    }
    let twice = [("xts-aes-aesni", aesni), ("xts-aes-aesni", aesni)];
    assert_caught(&names::driver_violations(&twice, &tiers), "twice");
}

#[test]
fn law_5_control_exports() {
    let built = Plant::new("bad_export.c", "bad_export.c").build();
    let violations = symbols::misnamed_exports(&built);
    assert_caught(&violations, "aes_leak");
    assert_caught(&violations, "aes_leaked_data");
    assert!(!violations.iter().any(|v| v.contains("kiln_fine")));
    assert!(!violations.iter().any(|v| v.contains("aes_hidden")));
}

// Law 6: ciphers use only instructions of their tier, and only instructions whose timing is
// independent of their operands.

/// Returns the objects of `kernel/ciphers`, which contain all keyed primitives and the code that
/// they share.
fn ciphers(built: &Built) -> impl Iterator<Item = &Object> {
    let ciphers = |o: &&Object| o.source.starts_with("ciphers");
    built.objects.iter().filter(ciphers)
}

#[test]
fn law_6_no_instruction_with_operand_dependent_time() {
    assert_lawful(under_every_compiler(plain, |built| {
        let jumps: usize = ciphers(built).map(timing::conditional_jumps).sum();
        loud(&format!(
            "law 6: {}: {jumps} conditional jumps in {} objects; on what, tests/constant_time/ asks",
            built.compiler,
            ciphers(built).count()
        ));
        ciphers(built).flat_map(timing::operand_time).collect()
    }));
}

#[test]
fn law_6_no_instruction_beyond_the_tier() {
    assert_lawful(under_every_compiler(plain, |built| {
        ciphers(built).flat_map(timing::beyond_tier).collect()
    }));
}

/// Assembles an offender as if it were the file `at`, whose name determines the tier.
fn assembled(offender: &str, at: &str) -> Object {
    let built = Plant::new(offender, at).build();
    built.objects.into_iter().next().expect("one object")
}

#[test]
fn law_6_control_division() {
    let object = assembled("operand_time.S", "ciphers/operand_time.S");
    let violations = timing::operand_time(&object);
    for mnemonic in [
        "div",
        "idiv",
        "pdep",
        "vpgatherdd",
        "divpd",
        "pcmpestri",
        "rdtsc",
    ] {
        assert_caught(&violations, &format!(": {mnemonic} is not known"));
    }
    // Instructions that the file is allowed to use must not be reported.
    assert_eq!(violations.len(), 7, "{violations:?}");
    assert_caught(&violations, "divides+0x");
}

#[test]
fn law_6_control_beyond_the_tier() {
    for (at, beyond) in [
        (
            "ciphers/a.S",
            &["aesenc", "vaesenc", "vpaddd", "rorx", "vpxorq"][..],
        ),
        (
            "ciphers/a_aesni.S",
            &["vaesenc", "vpaddd", "rorx", "vpxorq"],
        ),
        ("ciphers/a_avx2.S", &["vaesenc", "vpxorq"]),
        ("ciphers/a_vaes_avx2.S", &["vpxorq"]),
        ("ciphers/a_vaes_avx512.S", &[]),
    ] {
        let violations = timing::beyond_tier(&assembled("beyond_tier.S", at));
        for mnemonic in beyond {
            assert_caught(&violations, &format!(": {mnemonic} needs"));
        }
        assert_eq!(violations.len(), beyond.len(), "{at}: {violations:?}");
    }
}

// Layering: files, objects and crates use only lower layers.

#[test]
fn layering_kernel_includes_only_itself() {
    assert_lawful(layering::kernel_includes(kernel_dir()));
}

#[test]
fn layering_no_room_uses_a_higher_one() {
    assert_lawful(under_every_compiler(plain, layering::calls_upwards));
    assert_lawful(layering::crypto_in_lowest_rooms(kernel_dir()));
}

#[test]
fn layering_ciphers_open_no_sections() {
    assert_lawful(layering::sections_in_ciphers(kernel_dir()));
    assert_lawful(under_every_compiler(plain, layering::ciphers_call_sections));
}

#[test]
fn layering_of_crates() {
    let crates = kernel_dir().join("../crates");
    for name in ["kiln-measure", "kiln-kbuild"] {
        let manifest = fs::read_to_string(crates.join(name).join("Cargo.toml"))
            .unwrap_or_else(|e| panic!("crates/{name}/Cargo.toml: {e}"));
        assert_lawful(layering::kiln_dependencies(name, &manifest));
    }
}

#[test]
fn layering_control_includes() {
    let plant = Plant::empty();
    plant.write("include/kiln/types.h", "#include <stdint.h>\n");
    plant.write("a/aesni.c", "#include <immintrin.h>\n#include \"a.h\"\n");
    plant.write("a/a.h", "#include <kiln/types.h>\n");
    assert_lawful(layering::kernel_includes(&plant.dir));

    plant.write("b/libc.c", "  #  include <string.h>\n");
    plant.write("b/outside.c", "#include \"../../outside.h\"\n");
    plant.write("b/absent.c", "#include <kiln/absent.h>\n");
    plant.write("b/generic.c", "#include \"simd.h\"\n");
    plant.write("b/simd.h", "#include <immintrin.h>\n");
    plant.write("b/macro.c", "#include CONFIG_HEADER\n");
    fs::write(plant.dir.join("../outside.h"), "").unwrap();
    let violations = layering::kernel_includes(&plant.dir);
    for what in [
        "<string.h>",
        "../../outside.h",
        "<kiln/absent.h>",
        "b/generic.c",
        "CONFIG_HEADER",
    ] {
        assert_caught(&violations, what);
    }
    assert_eq!(violations.len(), 5, "{violations:?}");
}

/// Control: the checks must find CPU code that uses cryptd's queue, and FPU code that implements a
/// function of the crypto API.
#[test]
fn layering_control_rooms() {
    let plant = Plant::empty();
    plant.write("include/kiln/cpu.h", "void cpu_start(void);\n");
    plant.write("include/kiln/crypto.h", "void start_queue(void);\n");
    plant.write(
        "cpu/cpu.c",
        "#include <kiln/cpu.h>\nvoid cpu_start(void) {}\n",
    );
    plant.write(
        "crypto/queue.c",
        "#include <kiln/cpu.h>\n#include <kiln/crypto.h>\nvoid start_queue(void) { cpu_start(); }\n",
    );
    assert_lawful(layering::calls_upwards(&plant.build()));
    assert_lawful(layering::crypto_in_lowest_rooms(&plant.dir));

    plant.write(
        "cpu/start.c",
        "#include <kiln/crypto.h>\nvoid cpu_begin(void);\nvoid cpu_begin(void) { start_queue(); }\n",
    );
    plant.write(
        "fpu/section.c",
        "int crypto_simd_usable(void);\nint crypto_simd_usable(void) { return 1; }\n",
    );
    plant.write(
        "include/kiln/percpu.h",
        "struct area { struct crypto_queue *queue; };\n",
    );
    plant.write("new/room.c", "int new_room;\n");
    let calls = layering::calls_upwards(&plant.build());
    assert_caught(&calls, "cpu/start.c uses start_queue");
    assert_caught(&calls, "new/room.c");
    assert_eq!(calls.len(), 2, "{calls:?}");
    let names = layering::crypto_in_lowest_rooms(&plant.dir);
    for what in [
        "cpu/start.c: #include <kiln/crypto.h>",
        "fpu/section.c: crypto_simd_usable",
        "include/kiln/percpu.h: crypto_queue",
    ] {
        assert_caught(&names, what);
    }
    assert_eq!(names.len(), 3, "{names:?}");
}

/// One offender includes `kiln/fpu.h` through another header. The other offender itself declares
/// the function that begins a section.
#[test]
fn layering_control_sections() {
    let plant = Plant::empty();
    let header = "void kernel_fpu_begin(void);\n";
    plant.write("include/kiln/fpu.h", header);
    plant.write("include/kiln/fpu_assert.h", "\n");
    plant.write(
        "fpu/section.c",
        "#include <kiln/fpu.h>\nvoid kernel_fpu_begin(void) {}\n",
    );
    plant.write("ciphers/a/a.c", "#include <kiln/fpu_assert.h>\nint a;\n");
    plant.write("bench/calls.c", "#include <kiln/fpu.h>\nint calls;\n");
    assert_lawful(layering::sections_in_ciphers(&plant.dir));
    assert_lawful(layering::ciphers_call_sections(&plant.build()));

    plant.write("include/kiln/helper.h", "#include <kiln/fpu.h>\n");
    plant.write("ciphers/b/b.c", "#include <kiln/helper.h>\nint b;\n");
    let calls = "void c(void);\nvoid c(void) { kernel_fpu_begin(); }\n";
    plant.write("ciphers/c/c.c", &format!("{header}{calls}"));
    let includes = layering::sections_in_ciphers(&plant.dir);
    assert_caught(&includes, "ciphers/b/b.c");
    assert_eq!(includes.len(), 1, "{includes:?}");
    let calls = layering::ciphers_call_sections(&plant.build());
    assert_caught(&calls, "ciphers/c/c.c uses kernel_fpu_begin");
    assert_eq!(calls.len(), 1, "{calls:?}");
}

#[test]
fn layering_control_crates() {
    for manifest in [
        "[dependencies]\nkiln-kernel = { path = \"../kiln-kernel\" }\n",
        "[dev-dependencies]\nkiln-kernel.workspace = true\n",
        "[target.'cfg(unix)'.dependencies]\nkiln-kernel = \"1\"\n",
        "[dependencies.kiln-kernel]\npath = \"../kiln-kernel\"\n",
        "[dependencies]\nkernel = { package = \"kiln-kernel\", path = \"../kiln-kernel\" }\n",
    ] {
        assert_caught(
            &layering::kiln_dependencies("offender", manifest),
            "kiln-kernel",
        );
    }
    let innocent = "[package]\nname = \"kiln-measure\"\n[dependencies]\nlibc = \"0.2\"\n";
    assert_lawful(layering::kiln_dependencies("innocent", innocent));
}

// Calls leave no secrets on the stack or in registers.

#[test]
fn no_secret_is_left_when_kernel_mode_is_left() {
    assert_lawful(under_every_compiler(plain, |built| {
        leftovers::violations(&leftovers::link(built), &[])
    }));
}

#[test]
fn leftovers_control_each_kind_is_found_and_named() {
    let program = leftovers::link(default_build());
    // Check the stack when the function itself returns, because the gate clears the stack.
    for (control, what) in [
        ("round-key", "leaves round key 5 of encryption in the stack"),
        ("hash-power", "leaves the context in the stack"),
        ("text", "leaves the text in the stack"),
        ("state", "leaves a keyed state in the stack"),
    ] {
        let seen = leftovers::violations(&program, &["--call", "--control", control]);
        assert_caught(&seen, &format!("planted seal {what}"));
    }
    for (control, what) in [
        ("deep", "seal leaves the context in the stack"),
        (
            "vector-register",
            "seal leaves the context in vector registers",
        ),
        ("general-register", "setkey leaves round key 0"),
    ] {
        let seen = leftovers::violations(&program, &["--control", control]);
        assert_caught(&seen, &format!("planted {what}"));
    }
}

#[test]
fn nothing_is_written_for_an_empty_text_without_an_address() {
    assert_lawful(under_every_compiler(plain, |built| {
        leftovers::violations(&leftovers::link(built), &["--empty"])
    }));
}

#[test]
fn the_default_compiler_is_among_those_checked() {
    let path = fs::canonicalize(&default_compiler().path).unwrap();
    assert!(builds().iter().any(|b| b.canonical == path));
}
