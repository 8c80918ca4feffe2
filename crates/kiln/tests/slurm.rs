//! Tests `packaging/slurm/kiln-fleet` on a real Slurm cluster with four virtual nodes on this
//! machine. Jobs are killed, nodes go down, and a disk is full. The tests need root, `slurmctld`,
//! `slurmd`, `slurm-client` and `munge` (Debian packages); without them, the tests are skipped.

mod cluster;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::kiln;
use cluster::{wait_for, Cluster};
use serde_json::Value;

const FLEET: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/slurm/kiln-fleet"
);
/// The command that the campaigns run: known-answer tests of four algorithms.
const WORK: [&str; 5] = ["test", "sha256", "ghash", "xts(aes)", "sha512"];

/// Writes a site file that also contains the lines `more`. Returns the file's path.
fn site(dir: &Path, more: &str) -> String {
    let path = dir.join("site.conf");
    let kiln = env!("CARGO_BIN_EXE_kiln");
    fs::write(
        &path,
        format!("KILN={kiln}\nTIME=5\nSHARDS=4\nRETRIES=2\n{more}\n"),
    )
    .unwrap();
    path.to_str().unwrap().to_string()
}

fn fleet(cluster: &Cluster, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(FLEET);
    command.args(args).env("SLURM_CONF", &cluster.conf);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    (output.status.code().unwrap(), text)
}

/// Merges the records in a campaign's directory. Returns the exit status and stderr of the report,
/// and the keys of all rows.
fn united(dir: &Path) -> (i32, String, BTreeSet<String>) {
    let records = dir.join("records");
    let run = kiln(&["report", records.to_str().unwrap(), "--format", "csv"]);
    let text = run.stdout();
    let rows: Vec<String> = text.lines().skip(1).map(str::to_string).collect();
    let set: BTreeSet<String> = rows.iter().map(|row| key(row)).collect();
    assert_eq!(set.len(), rows.len(), "a row is counted twice: {text}");
    (run.status, run.stderr, set)
}

/// Returns the part of an exported line that identifies its row: the algorithm, implementation,
/// suite, context and tiers.
fn key(line: &str) -> String {
    line.split_once(",test,")
        .map_or(line, |(_, rest)| rest)
        .to_string()
}

fn whole(dir: &Path) -> BTreeSet<String> {
    let out = dir.join("whole");
    let mut args = WORK.to_vec();
    args.extend([
        "--suite", "vectors", "--seed", "1", "--shard", "1/1", "--out",
    ]);
    args.push(out.to_str().unwrap());
    assert_eq!(kiln(&args).status, 0);
    let run = kiln(&["report", out.to_str().unwrap(), "--format", "csv"]);
    run.stdout().lines().skip(1).map(key).collect()
}

fn submit(cluster: &Cluster, options: &[&str], dir: &Path) {
    let mut args = vec!["test"];
    args.extend(options);
    args.extend([dir.to_str().unwrap(), "--"]);
    args.extend(&WORK[1..]);
    args.extend(["--suite", "vectors"]);
    let (status, text) = fleet(cluster, &args);
    assert_eq!(status, 0, "{text}");
}

fn finish(dir: &Path) -> String {
    wait_for("the end of the campaign", || dir.join("done").exists());
    fs::read_to_string(dir.join("done"))
        .unwrap()
        .trim()
        .to_string()
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn campaigns_survive_what_happens_to_clusters() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let home = cluster.home.path().to_path_buf();
    let want = whole(&home);
    assert!(want.len() > 10, "{want:?}");
    nothing_is_lost(&cluster, &home.join("a"), &want);
    what_is_lost_is_named(&cluster, &home.join("b"), &want);
    a_survey_has_a_column_for_each_node(&cluster, &home.join("c"));
    a_bisection_finds_the_commit(&cluster, &home);
}

/// Task 1 is killed, the node of task 2 goes down, and the disk is full when task 3 writes its
/// record. All results must nevertheless be complete at the end.
fn nothing_is_lost(cluster: &Cluster, dir: &Path, want: &BTreeSet<String>) {
    fs::create_dir_all(dir.join("records")).unwrap();
    let disk = cluster.small_disk(&dir.join("records"));
    let hook = "BEFORE='f=\"$dir/first.$n\"; if [ ! -e \"$f\" ]; then echo \"$KILN_HOST\" >\"$f\"
case $n in 1 | 2) sleep 20 ;; 3) dd if=/dev/zero of=\"$dir/records/filler\" bs=4k 2>/dev/null || true ;; esac
elif [ \"$n\" = 3 ]; then rm -f \"$dir/records/filler\"; fi'";
    let site = site(cluster.home.path(), hook);
    submit(cluster, &["--site", &site], dir);
    let first = |n: u32| dir.join(format!("first.{n}"));
    wait_for("tasks 1 and 2", || first(1).exists() && first(2).exists());
    let format = ["squeue", "-h", "-r", "-n", "kiln", "-o", "%F_%K"];
    let jobs = cluster.run(&format);
    let job = |n: &str| {
        jobs.lines()
            .find(|l| l.ends_with(n))
            .unwrap_or_else(|| panic!("{jobs}"))
    };
    cluster.run(&["scancel", job("_1")]);
    let node = read(first(2));
    cluster.lose_node(node.trim());
    // Restart the task now, because Slurm itself restarts the task of a lost node only after two
    // minutes.
    cluster.run(&[
        "scontrol",
        "update",
        &format!("jobid={}", job("_2")),
        "starttime=now",
    ]);
    let done = finish(dir);
    let log = read(dir.join("log/merge"));
    assert_eq!(done, "0", "{log}");
    let (status, stderr, rows) = united(dir);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(rows, *want);
    assert!(
        read(dir.join("log/3")).contains("cannot write"),
        "the disk was not full"
    );
    // Require at least one repetition, but not an exact number, because task 4 also fails if it
    // ends while the disk is full.
    assert_ne!(
        read(dir.join("tries")).trim(),
        "0",
        "something was repeated"
    );
    assert!(read(dir.join("report.html")).contains("<html"));
    cluster.start_node(node.trim());
    drop(disk);
}

/// Control: without repetitions, the results of a killed task are missing. The report must name the
/// task, and resuming the campaign must run it.
fn what_is_lost_is_named(cluster: &Cluster, dir: &Path, want: &BTreeSet<String>) {
    let hook = "BEFORE='[ \"$n\" != 2 ] || [ -e \"$dir/mended\" ] || kill -KILL $$'\nRETRIES=0";
    let site = site(cluster.home.path(), hook);
    submit(cluster, &["--site", &site], dir);
    assert_eq!(finish(dir), "1");
    let log = read(dir.join("log/merge"));
    assert!(
        log.contains("shard 2/4 of 'kiln test") && log.contains("is missing"),
        "{log}"
    );
    let (status, stderr, rows) = united(dir);
    assert!(status == 1 && stderr.contains("--shard 2/4"), "{stderr}");
    assert!(rows.is_subset(want) && rows.len() < want.len());
    fs::write(dir.join("mended"), "").unwrap();
    let (status, text) = fleet(cluster, &["resume", dir.to_str().unwrap()]);
    assert!(status == 0 && text.contains(" 1 tasks as jobs"), "{text}");
    assert_eq!(finish(dir), "0");
    assert_eq!(united(dir).2, *want);
}

fn a_survey_has_a_column_for_each_node(cluster: &Cluster, dir: &Path) {
    // Require a feature that node n4 lacks. Slurm must then not use n4.
    let site = site(cluster.home.path(), "CONSTRAINT=zen");
    let name = dir.to_str().unwrap();
    let args = ["survey", "--site", &site, "--wait", name, "--", "list"];
    let (status, text) = fleet(cluster, &args);
    assert_eq!(status, 0, "{text}");
    let page = read(dir.join("report.html"));
    for node in ["n1", "n2", "n3"] {
        assert!(
            page.contains(&format!("<th scope=\"col\">{node}</th>")),
            "{node}"
        );
        let record: Value =
            serde_json::from_str(&read(dir.join("records").join(node).join("list.json"))).unwrap();
        assert_eq!(record["command"], "list");
    }
    assert!(!dir.join("records/n4").exists());
}

fn a_bisection_finds_the_commit(cluster: &Cluster, home: &Path) {
    let repo = home.join("repo");
    fs::create_dir(&repo).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(&repo)
            .args(["-c", "user.name=k", "-c", "user.email=k@k"])
            .args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    git(&["init", "-q"]);
    let mut commits = Vec::new();
    for n in 0..=20 {
        fs::write(
            repo.join("cycles"),
            format!("{}\n", if n < 13 { 100 + n % 2 } else { 200 + n % 2 }),
        )
        .unwrap();
        git(&["add", "cycles"]);
        git(&["commit", "-q", "-m", &format!("commit {n}")]);
        commits.push(git(&["rev-parse", "HEAD"]));
    }
    // Commit 12 cannot be tried, so the command must report commit 13 as one of two candidates for
    // the first bad commit.
    let run = format!(
        "[ $KILN_COMMIT != {} ] || exit 125; test $(git -C '{}' show $KILN_COMMIT:cycles) -lt 150",
        commits[12],
        repo.display()
    );
    let site = site(home, "");
    let dir = home.join("d");
    let names = [dir.to_str().unwrap(), repo.to_str().unwrap()];
    let args = [
        "bisect",
        "--site",
        &site,
        "--wait",
        "--run",
        &run,
        names[0],
        names[1],
        &commits[0],
        "HEAD",
    ];
    let (status, text) = fleet(cluster, &args);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains(&format!("first bad commit: {}", commits[13])),
        "{text}"
    );
    assert!(text.contains("one of 2"), "{text}");
    let tasks = read(dir.join("tasks")).lines().count();
    assert!(tasks < 15, "{tasks} of 20 commits were tried");
}
