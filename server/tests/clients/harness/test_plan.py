"""The comparison must see every kind of fault; run.sh runs this first."""

import base64
import unittest

from . import plan


def event_of(planned):
    encode = lambda text: base64.b64encode(text).decode()
    return {
        "ev": "recv",
        "key": encode(planned.key.encode()),
        "tag": encode(planned.tag.encode()),
        "body": encode(planned.body),
        "props": {name: encode(value.encode()) for name, value in planned.props.items()},
    }


class ComparisonTest(unittest.TestCase):
    def setUp(self):
        self.plan = plan.make("test", 100, ("sync", "async", "oneway", "batch"), True)
        self.events = [event_of(planned) for planned in self.plan]

    def problems(self, **options):
        return plan.Comparison(self.plan, self.events).problems(**options)

    def test_everything_as_sent_is_no_problem(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(len(plan.Comparison(self.plan, self.events).equal), 100)

    def test_a_lost_message_is_seen(self):
        del self.events[41]
        self.assertIn("1 lost", self.problems()[0])

    def test_a_message_twice_is_seen_unless_allowed(self):
        self.events.append(self.events[5])
        self.assertEqual(self.problems(), ["1 received again"])
        self.assertEqual(self.problems(allow_again=True), [])

    def test_each_changed_part_is_seen(self):
        other = base64.b64encode(b"other").decode()
        for change in ({"body": other}, {"tag": other}, {"tag": None}, {"props": {}},
                       {"props": {**self.events[3]["props"], "text": other}}):
            with self.subTest(change):
                kept = self.events[3]
                self.events[3] = {**kept, **change}
                self.assertIn("1 different", self.problems()[0])
                self.events[3] = kept

    def test_a_foreign_message_is_seen(self):
        self.events.append({**self.events[0], "key": base64.b64encode(b"who").decode()})
        self.assertIn("1 unknown", self.problems()[0])

    def test_the_plan_uses_each_way_to_send_that_the_client_has(self):
        self.assertEqual({p.how for p in self.plan}, {"sync", "async", "oneway", "batch"})
        self.assertEqual({p.how for p in plan.make("test", 100, ("sync",), True)}, {"sync"})

    def test_bodies_for_c_strings_have_no_zero_byte(self):
        self.assertTrue(any(b"\0" in p.body for p in plan.make("test", 1000, ("sync",), True)))
        self.assertFalse(any(b"\0" in p.body for p in plan.make("test", 1000, ("sync",), False)))


if __name__ == "__main__":
    unittest.main()
