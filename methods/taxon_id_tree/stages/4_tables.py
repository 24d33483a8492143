"""Writes tree.nwk, tree.nex, tree.svg, and in the order of the tree taxonomy.tsv and taxonomy.jsonl."""

import numpy as np
from barcode.groups import Groups
from barcode.job import Job, read_jsonl, run_stage, write_jsonl
from barcode.labels import labels_of, wanted
from barcode.nj import Tree
from barcode.tables import write_tsv
from barcode.treeplot import tree_svg
from barcode.trees import drawn, newick, nexus, together

COLUMNS = (
    "order_in_tree",
    "label",
    "record_id",
    "processid",
    "sampleid",
    "bin_uri",
    "phylum",
    "class",
    "order",
    "family",
    "subfamily",
    "tribe",
    "genus",
    "species",
    "identification",
    "country/ocean",
    "province/state",
    "known_bases",
    "species_together",
)
DRAWN_IN_REPORT = 1500


def stage(job: Job) -> None:
    records, stored = read_jsonl(job.dir / "records_used.jsonl"), job.load("tree")
    tree = Tree(len(records), root=stored["children"][-1][0])
    tree.children, tree.length = dict(stored["children"]), dict(stored["length"])
    labels = labels_of(records, wanted(job.parameters["label_fields"]))
    (job.dir / "tree.nwk").write_text(newick(tree, labels) + "\n", encoding="utf-8")
    (job.dir / "tree.nex").write_text(nexus(tree, labels), encoding="utf-8")
    shown = drawn(tree)
    order = shown.tip_order()
    species = Groups.by(records, "species")
    one_branch = together(shown, order, species.of)
    several = species.sizes > 1
    apart = [bool(group >= 0 and several[group] and not one_branch[group]) for group in species.of.tolist()]
    (job.dir / "tree.svg").write_text(tree_svg(shown, labels, apart, alone=True), encoding="utf-8")
    if tree.tips <= DRAWN_IN_REPORT:
        (job.work / "tree.svg").write_text(tree_svg(shown, labels, apart, alone=False), encoding="utf-8")
    rows = []
    for number, tip in enumerate(order, 1):
        group = int(species.of[tip])
        said = bool(one_branch[group]) if group >= 0 and several[group] else None
        values = {**records[tip], "order_in_tree": number, "label": labels[tip], "species_together": said}
        rows.append([values[column] for column in COLUMNS])
    print(f"taxonomy.tsv: {write_tsv(job.dir / 'taxonomy.tsv', COLUMNS, rows)} rows")
    write_jsonl(job.dir / "taxonomy.jsonl", (dict(zip(COLUMNS, row, strict=True)) for row in rows))
    job.save("apart", [species.names[n] for n in np.flatnonzero(several & ~one_branch).tolist()])
    job.save("several", int(several.sum()))


if __name__ == "__main__":
    run_stage(stage)
