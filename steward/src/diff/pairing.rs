//! The instances and devices of a program's report that are those of another report of it.
//!
//! Each output numbers them in the order of creation. A program that has come to create one more first, such as an
//! instance to look for a device, would be compared with itself shifted by one: so devices are paired by their names
//! and kinds of objects, and only where these do not decide by their number.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use vk_report::report::{Report, Source};

#[derive(Default)]
pub(super) struct PairedNames {
    /// Of each context that is no group, in order.
    pub(super) contexts: Vec<String>,
    /// Of each device with device memory, in order.
    pub(super) memory: Vec<String>,
}

/// Places count from 1; a device of 0 is the instance itself.
type AccountPlace = (usize, usize);

#[derive(Default)]
struct Account<'r> {
    kinds: BTreeSet<&'r str>,
    description: &'r str,
}

#[derive(Default)]
struct Instance<'r> {
    own: Account<'r>,
    devices: Vec<Account<'r>>,
}

/// Returns `None` unless both reports are of programs.
pub(super) fn names(before: &Report, after: &Report) -> Option<[PairedNames; 2]> {
    let instances = [instances(before)?, instances(after)?];
    let [first, second] = &instances;
    let paired = numbers(first, second, Instance::likeness);
    let own = (0..first.len()).map(|at| (at, (0..first[at].devices.len()).collect()));
    let of_pairs = second.iter().zip(paired).map(|(instance, number)| {
        let devices = first.get(number).map_or(&[][..], |of| &of.devices);
        let devices = numbers(devices, &instance.devices, Account::likeness);
        (number, devices)
    });
    let places = [places(own), places(of_pairs)];
    let mut kinds: BTreeMap<&str, BTreeSet<AccountPlace>> = BTreeMap::new();
    for (instances, places) in instances.iter().zip(&places) {
        let accounts = instances.iter().flat_map(Instance::accounts);
        for (account, place) in accounts.zip(places) {
            for kind in &account.kinds {
                kinds.entry(kind).or_default().insert(*place);
            }
        }
    }
    let [first, second] = &places;
    Some([names_of(before, first, &kinds), names_of(after, second, &kinds)])
}

fn names_of(report: &Report, places: &[AccountPlace], kinds: &BTreeMap<&str, BTreeSet<AccountPlace>>) -> PairedNames {
    let mut names = PairedNames::default();
    let mut groups = places.iter();
    let mut place = None;
    for row in &report.contexts {
        if row.group {
            place = groups.next();
            continue;
        }
        let all = kinds.get(row.name.as_str()).into_iter().flatten();
        let nth = all.take_while(|other| Some(*other) != place).count();
        names.contexts.push(match nth {
            0 => row.name.clone(),
            nth => format!("{} #{}", row.name, nth.saturating_add(1)),
        });
    }
    let devices = places.iter().filter(|(_, device)| *device != 0);
    let name = |(instance, device): &AccountPlace| format!("instance {}, device {device}", instance.saturating_add(1));
    names.memory = devices.map(name).collect();
    names
}

fn places(instances: impl Iterator<Item = (usize, Vec<usize>)>) -> Vec<AccountPlace> {
    let of_instance = |(instance, devices): (usize, Vec<usize>)| {
        let devices = devices.into_iter().map(|device| device.saturating_add(1));
        let all = std::iter::once(0).chain(devices);
        all.map(move |device| (instance, device))
    };
    instances.flat_map(of_instance).collect()
}

fn instances(report: &Report) -> Option<Vec<Instance<'_>>> {
    let Source::Program { devices, .. } = &report.source else {
        return None;
    };
    let with_device = report.contexts.iter().filter(|row| row.group && row.depth > 0);
    // Otherwise some device has none, and it is not known which.
    let is_known = with_device.count() == devices.len();
    let mut descriptions = devices.iter().filter(|_| is_known);
    let mut instances: Vec<Instance<'_>> = Vec::new();
    for row in &report.contexts {
        if row.group && row.depth == 0 {
            instances.push(Instance::default());
            continue;
        }
        let Some(last) = instances.last_mut() else {
            continue;
        };
        if row.group {
            last.devices
                .push(Account { description: descriptions.next().map_or("", String::as_str), ..Account::default() });
        } else {
            let account = last.devices.last_mut().unwrap_or(&mut last.own);
            account.kinds.insert(&row.name);
        }
    }
    Some(instances)
}

/// Those that are most alike are partners first, and of several the earliest. What has no partner is numbered behind
/// all others.
fn numbers<T, L: Ord>(before: &[T], after: &[T], likeness: impl Fn(&T, &T) -> L) -> Vec<usize> {
    let mut candidates = Vec::new();
    for (at, one) in before.iter().enumerate() {
        for (other_at, other) in after.iter().enumerate() {
            candidates.push((Reverse(likeness(one, other)), at, other_at));
        }
    }
    candidates.sort();
    let mut partners = BTreeMap::new();
    let mut paired = BTreeSet::new();
    for (_, one, other) in candidates {
        if !partners.contains_key(&other) && paired.insert(one) {
            partners.insert(other, one);
        }
    }
    let mut behind = before.len();
    let number = |other| {
        partners.get(&other).copied().unwrap_or_else(|| {
            behind = behind.saturating_add(1);
            behind.saturating_sub(1)
        })
    };
    (0..after.len()).map(number).collect()
}

impl Account<'_> {
    fn likeness(&self, other: &Self) -> (bool, bool, usize) {
        let [one, same] = [self, other].map(|account| account.description);
        let device = |description: &str| description.split(", driver ").next().map(str::to_owned);
        let is_known = !one.is_empty();
        (
            is_known && one == same,
            is_known && device(one) == device(same),
            self.kinds.intersection(&other.kinds).count(),
        )
    }
}

impl<'r> Instance<'r> {
    fn accounts(&self) -> impl Iterator<Item = &Account<'r>> {
        std::iter::once(&self.own).chain(&self.devices)
    }

    fn likeness(&self, other: &Self) -> (Option<(bool, bool, usize)>, usize) {
        let pairs = self.devices.iter().flat_map(|device| {
            let others = other.devices.iter();
            others.map(|other| device.likeness(other))
        });
        (pairs.max(), self.own.likeness(&other.own).2)
    }
}
