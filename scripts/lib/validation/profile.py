"""gpu-validate's piece profile: the operators of each measured step beside their least times on the device (trainwatt models --on)."""
import json
import os

from validation import figures, page, plan
from validation.runner import Failed, LeftOut, Runner


UNLISTED = "error[unknown-name]: --on "  # as trainwatt models says it
LEDGER_SECONDS = 30


def least_times(output):
    """The ledger in what `trainwatt models --json` printed, which may have warnings before it, with braces in their text."""
    at = 0 if output.startswith("{") else output.find("\n{") + 1
    try:
        return json.loads(output[at:])["ledgers"][0]
    except (ValueError, LookupError, TypeError):
        return None


def joined(point, ledger, is_comparable):
    """The operators of the point's profiled step with their least times, those with the largest share first. A time is only beside a
    least time of the device that it was measured on. Without a ledger (None) there are measured times alone."""
    rows = {row["operator"]: row for row in ledger["operators"]} if ledger else {}
    step = point.get("step_time_s")
    operators = []
    for name, share in sorted(point["op_share"].items(), key=lambda one: -one[1]):
        row = rows.get(name, {})
        least = row.get("least_s")  # None: the ledger does not count this operator
        measured = point["op_seconds"].get(name) if is_comparable else None
        operators.append({"operator": name, "share": share, "measured_s": measured, "least_s": least,
                          "times_least": measured / least if measured and least else None,
                          "above_least_s": measured - least if measured and least is not None else None})
    return {"least_times_of": ledger and ledger["device"], "is_comparable": is_comparable, "least_step_s": ledger and ledger["least_step_s"],
            "step_s": step, "share_outside_operators": 1 - sum(point["op_share"].values()), "operators": operators}


class Profile(Runner):
    def ledger_command(self, point, *more):
        on = plan.REHEARSED_LEDGER if self.options.rehearse else point["device"]
        command = [self.program("trainwatt"), "models", point["model"], "--on", on, "--precision", point["precision"],
                   "--micro-batch", str(point["micro_batch"])]
        if point["seq_len"]:
            command += ["--seq-len", str(point["seq_len"])]
        options = point.get("options", "").split()
        if "--table-rows-at-most" in options:
            command += options[options.index("--table-rows-at-most"):][:2]
        if not self.options.rehearse:
            command += ["--against", point["report"]]
        return command + list(more)

    def profile_of(self, point):
        """Stores the profile in the point and as a file of text; returns the reason if it lacks what it should have. A GPU outside the list
        of vendor peaks has no least times, and should not."""
        if not self.options.rehearse and not point.get("device"):
            return "its launch left no report"
        code, output = self.run(self.ledger_command(point, "--json"), "profile.log", LEDGER_SECONDS)
        ledger = least_times(output) if code == 0 else None
        why = None
        if not ledger:
            why = f"the ledger took longer than {LEDGER_SECONDS} s" if code is None else (output.strip().splitlines() or [f"exit code {code}"])[-1]
        if why and self.options.rehearse:
            return why
        point["profile"] = joined(point, ledger, not self.options.rehearse)
        text = self.run(self.ledger_command(point), "profile.log", LEDGER_SECONDS)[1] if ledger else why + "\n"
        os.makedirs(os.path.join(self.work, "profiles"), exist_ok=True)
        name = "-".join([point["model"], point["precision"], *point.get("options", "").split()[1:]])
        with open(os.path.join(self.work, "profiles", f"{name}.txt"), "w", encoding="utf-8") as file:
            file.write(page.profile_text(point) + "\n" + text)
        return None if why and UNLISTED in why else why

    def profile(self):
        if not self.program("trainwatt"):
            raise LeftOut("no program trainwatt in the build")
        measured = [point for point in self.summary["points"] if point.get("samples_per_s") is not None]
        if not measured:
            raise LeftOut("no point was measured")
        bad = []
        for point in measured:
            try:
                why = self.profile_of(point) if point.get("op_share") else "its report has no operators' shares"
            except Failed as error:
                why = str(error)
            if why:
                point["profile_reason"] = why
                bad.append(f"{figures.name_of(point)}: {why}")
        text = f"{len(measured) - len(bad)} of {len(measured)} points have a profile, in profiles/ of the archive"
        unlisted = {point["device"] for point in measured if "profile" in point and "profile_reason" not in point
                    and not point["profile"]["least_times_of"]}
        if unlisted:
            text += f"; no least times of {', '.join(sorted(unlisted))}, which the list of vendor peaks does not have"
        if bad:
            raise Failed(f"{text}; {'; '.join(bad)}")
        return text
